// Barriers in shared memory on the emulated multiprocessor. Tests find this header before the one in src/.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/ring.cuh"
#include "tests/kernels/gpu/multiprocessor.h"

namespace sm90 {

using polymio::emulated::shared_address;

class Barrier {
 public:
  void init(u32 arrivals) {
    threads_ = missing_ = static_cast<std::uint16_t>(arrivals);
    parity_ = 0;
    bytes_ = 0;
  }
  void arrive() {
    --missing_;
    end_phase_if_complete();
  }
  void arrive_and_expect(u32 bytes) {
    bytes_ += static_cast<int>(bytes);
    arrive();
  }
  void wait(u32 parity) {
    polymio::emulated::wait_until([&] { return parity_ != parity; });
  }
  void receive(u32 bytes) const {
    auto& self = const_cast<Barrier&>(*this);
    self.bytes_ -= static_cast<int>(bytes);
    self.end_phase_if_complete();
  }

 private:
  void end_phase_if_complete() {
    if (missing_ > 0 || bytes_ != 0) return;
    missing_ = threads_;
    parity_ ^= 1;
    polymio::emulated::note_progress();
  }

  std::uint16_t threads_, missing_;  // arrivals of a phase, and of this phase that are missing
  u32 parity_ : 1;
  int bytes_ : 31;  // that are expected
};
static_assert(sizeof(Barrier) == 8);

inline void publish_barriers() {}

}  // namespace sm90
