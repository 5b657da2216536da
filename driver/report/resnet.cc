// ResNet-50 v1.5 for 224x224 images, in the order of the forward pass.
// SPDX-License-Identifier: MIT
#include "driver/report/resnet.h"

#include <fmt/format.h>

namespace polymio::driver {
namespace {

struct Shape {
  std::int64_t channels, size, filters, filter, stride;
};

Layer make_layer(std::int64_t batch, std::string name, const Shape& shape) {
  Layer layer{std::move(name), {}};
  ConvArgs& args = layer.args;
  args.batch = batch;
  args.in_channels = shape.channels;
  args.in_h = args.in_w = shape.size;
  args.out_channels = shape.filters;
  args.fil_h = args.fil_w = shape.filter;
  args.pad_h = args.pad_w = shape.filter / 2;
  args.stride_h = args.stride_w = shape.stride;
  return layer;
}

}  // namespace

std::vector<Layer> resnet50(std::int64_t batch) {
  constexpr int kBlocks[] = {3, 4, 6, 3};
  std::vector<Layer> layers = {make_layer(batch, "conv1", {3, 224, 64, 7, 2})};
  std::int64_t channels = 64, size = 56, width = 64;
  for (int stage = 0; stage < 4; ++stage, width *= 2) {
    for (int block = 0; block < kBlocks[stage]; ++block) {
      const std::int64_t stride = block == 0 && stage > 0 ? 2 : 1;
      const std::string prefix = fmt::format("layer{}.{}", stage + 1, block);
      layers.push_back(make_layer(batch, prefix + ".conv1", {channels, size, width, 1, 1}));
      layers.push_back(make_layer(batch, prefix + ".conv2", {width, size, width, 3, stride}));
      layers.push_back(make_layer(batch, prefix + ".conv3", {width, size / stride, 4 * width, 1, 1}));
      if (block == 0) {
        layers.push_back(make_layer(batch, prefix + ".downsample", {channels, size, 4 * width, 1, stride}));
      }
      size /= stride;
      channels = 4 * width;
    }
  }
  return layers;
}

}  // namespace polymio::driver
