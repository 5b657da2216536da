// The flags of the CTC loss, and the labels of a run.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <charconv>
#include <random>
#include <string>
#include <vector>

#include "driver/run/common_args.h"
#include "reference/ctc.h"

namespace polymio::driver {

struct CtcArgs {
  explicit CtcArgs(DataType of_probs) : type(of_probs) {}

  DataType type;
  std::int64_t batch = 4, labels = 9, blank = 0, softmax = 1, algorithm = 0;
  std::string input_lengths = "20", label_lengths = "5";
  std::vector<std::int64_t> in_strides, out_strides;

  Flags rows() {
    constexpr std::int64_t kMostClasses = 1 << 24;
    return {{"n", "batchsize", Integer{&batch, 1, kMaxInt}, "sequences", Part::kShape},
            {"c", "num_class", Integer{&labels, 1, kMostClasses}, "classes without the blank", Part::kShape},
            {"k", "input_len", Text{&input_lengths, "N[,..]"}, "steps of each sequence; the last number is repeated",
             Part::kShape},
            {"l", "label_len", Text{&label_lengths, "N[,..]"}, "labels of each sequence; the last number is repeated",
             Part::kShape},
            {"b", "blank_label_id", Integer{&blank, -kMaxInt, kMaxInt}, "the blank; the nearest class is used",
             Part::kOption},
            {"m", "apply_softmax_layer", Integer{&softmax, 0, 1}, "0: the input has logarithms of probabilities",
             Part::kOption},
            {"a", "ctcalgo", Integer{&algorithm, 0, 1}, "ignored: results are always deterministic"},
            {"", "in_strides", Integers{&in_strides}, "element strides of the input", Part::kOption},
            {"", "out_strides", Integers{&out_strides}, "of the gradient", Part::kOption}};
  }

  // Throws ArgError. Labels are pseudo-random, and a label is repeated where there are steps for it.
  reference::Ctc problem() const {
    reference::Ctc p;
    p.input_lengths = numbers("-k --input_len", input_lengths);
    p.label_lengths = numbers("-l --label_len", label_lengths);
    p.blank = std::clamp<std::int64_t>(blank, 0, labels);
    p.softmax = softmax != 0;
    const std::vector<std::int64_t> lens = {
        std::max(*std::max_element(p.input_lengths.begin(), p.input_lengths.end()), 1), batch, labels + 1};
    for (const auto* strides : {&in_strides, &out_strides})
      if (!strides->empty() && strides->size() != lens.size())
        throw ArgError("--in_strides, --out_strides: three numbers are allowed, of steps, sequences and classes");
    p.probs = {static_cast<reference::Type>(type), lens, in_strides};
    p.gradients = {static_cast<reference::Type>(type), lens, out_strides};
    std::mt19937 random(1);
    for (std::size_t n = 0; n < p.label_lengths.size(); ++n) {
      int spare = p.input_lengths[n] - p.label_lengths[n];
      for (int i = 0; i < p.label_lengths[n]; ++i) {
        const bool repeats = i > 0 && spare > 0 && random() % 4 == 0;
        p.labels.push_back(repeats ? p.labels.back() : other_label(random, p, i > 0));
        spare -= repeats ? 1 : 0;
      }
    }
    return p;
  }

 private:
  // No blank, and not the last label if there is another one.
  int other_label(std::mt19937& random, const reference::Ctc& p, bool has_last) const {
    for (;;) {
      const int label = static_cast<int>(random() % static_cast<std::uint32_t>(labels + 1));
      if (label != p.blank && !(has_last && labels > 1 && label == p.labels.back())) return label;
    }
  }

  // A number for each sequence.
  std::vector<int> numbers(const char* flag, const std::string& text) const {
    std::vector<int> all;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find_first_of(",x", at), text.size());
      int number = -1;
      const auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, number);
      if (error != std::errc() || rest != text.data() + end || number < 0)
        throw ArgError(std::string(flag) + ": bad value '" + text + "', allowed: numbers separated by commas or x");
      all.push_back(number);
      at = end + 1;
    }
    all.resize(static_cast<std::size_t>(batch), all.back());
    return all;
  }
};

}  // namespace polymio::driver
