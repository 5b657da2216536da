// The weights of ConvFewChannels in the order of its fragments.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/few_channels.cuh"

namespace sm90 {

/// Packs the weights as the fragments of the product's first operand, [row block][chunk][step][16 rows][lane][4].
template <int kRows>
struct ConvFewChannelsPacking {
  static constexpr int kThreads = 256, kResident = 1;
  struct Arguments {
    const u16* weights;
    u32* packed;
    ConvFewChannelsShape shape;
  };

  static DEVICE void run(const Arguments& a) {
    BEGIN_NEXT_KERNEL();
    const ConvFewChannelsShape& s = a.shape;
    const int count = s.row_blocks * s.chunks * s.steps * kRows * 128, i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= count) return;
    const int lane = i / 4 % 32, tile = i / 128, rest = tile / kRows, step = rest % s.steps;
    const int chunk = rest / s.steps % s.chunks, row_block = rest / s.steps / s.chunks;
    const int m = (row_block * 8 + lane / 4) * 2 * kRows + tile % kRows * 2 + i % 2;
    const int k = step * 16 + lane % 4 * 2 + i / 2 % 2 * 8;
    a.packed[i] = weight(a, m, k, chunk) | u32(weight(a, m, k + 1, chunk)) << 16;
  }

 private:
  static DEVICE u16 weight(const Arguments& a, int m, int k, int chunk) {
    const ConvFewChannelsShape& s = a.shape;
    if (s.takes_pixels) k = k / 32 * 32 + k % 8 / 2 * 8 + k / 16 % 2 * 4 + k / 8 % 2 * 2 + k % 2;
    const FewChannelsRow row(s, m);
    int point = k / s.chunk;
    const int channel = chunk * s.chunk + k % s.chunk;
    bool exists = m < s.rows && channel < s.channels;
    i64 at = row.output * s.weight_output + channel * s.weight_channel;
    UNROLL
    for (int i = 0; i < 3; ++i) {
      const int tap = few_channels_tap(s, i, point % s.points[i], row.result[i]);
      point /= s.points[i];
      exists = exists && u32(tap) < u32(s.taps[i]);
      at += tap * s.weight_tap[i];
    }
    return exists && point == 0 ? a.weights[at] : u16(0);
  }
};

}  // namespace sm90
