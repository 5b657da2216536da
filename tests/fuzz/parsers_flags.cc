// Command lines of the driver's primitives but convolution: their flags, and the problems that those describe.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <sstream>

#include "driver/run/adam_args.h"
#include "driver/run/cat_args.h"
#include "driver/run/ctc_args.h"
#include "driver/run/dropout_args.h"
#include "driver/run/fusion_args.h"
#include "driver/run/getitem_args.h"
#include "driver/run/kthvalue_args.h"
#include "driver/run/loss_args.h"
#include "driver/run/lrn_args.h"
#include "driver/run/mha_args.h"
#include "driver/run/pool_args.h"
#include "driver/run/prelu_args.h"
#include "driver/run/reduce_args.h"
#include "driver/run/rnn_args.h"
#include "driver/run/rope_args.h"
#include "driver/run/softmax_args.h"
#include "parsers.h"

namespace polymio::fuzz {
namespace {

using Arguments = std::span<const std::string>;
using driver::TensorArgs;

void parse(driver::Flags flags, Arguments arguments) {
  driver::RunArgs run;
  for (driver::Flag flag : driver::run_flags(run)) {
    const bool taken = std::ranges::any_of(flags, [&](const driver::Flag& f) { return f.letter == flag.letter; });
    if (taken) flag.letter = "";
    flags.push_back(flag);
  }
  driver::parse_flags({arguments[0], "", ""}, flags, arguments.subspan(1));
}

/// Tensors of the sizes of one input, or of a list of sizes, and the primitive's own flags.
template <class Args>
driver::Flags rows_of(TensorArgs& tensors, Args& args) {
  if constexpr (requires { args.rows(tensors); }) {
    return tensors.sizes.empty() ? tensors.rows(args.rows(tensors)) : args.rows(tensors);
  } else {
    return tensors.rows(args.rows());
  }
}

template <class Args>
void parse_tensors(TensorArgs tensors, Args args, Arguments arguments) {
  TensorArgs default_tensors = tensors;
  Args defaults = args;
  const driver::Flags flags = rows_of(tensors, args);
  parse(flags, arguments);
  tensors.check(flags, rows_of(default_tensors, defaults));
  tensors.lens();
}

template <class Args>
void parse_own(driver::DataType, Arguments arguments) {
  parse_tensors({}, Args(), arguments);
}

template <class Args>
void parse_list(driver::DataType, Arguments arguments) {
  parse_tensors(Args::tensors(), Args(), arguments);
}

/// Those of a struct that describes all its tensors.
template <class Args>
void parse_problem(Args args, Arguments arguments) {
  parse(args.rows(), arguments);
  args.problem();
}

/// The bias of a convolution has tensors only.
struct BiasArgs {
  static driver::Flags rows() { return {}; }
};

struct Parser {
  std::string_view base;
  void (*parse)(driver::DataType, Arguments);
};

constexpr driver::DataType kTypes[] = {driver::kFloat, driver::kHalf};
constexpr Parser kParsers[] = {
    {"softmax", parse_own<driver::SoftmaxArgs>},
    {"pool", parse_own<driver::PoolArgs>},
    {"lrn", parse_own<driver::LrnArgs>},
    {"dropout", parse_own<driver::DropoutArgs>},
    {"CBAInfer", parse_own<driver::FusionArgs>},
    {"bias", parse_own<BiasArgs>},
    {"adam", [](driver::DataType, Arguments a) { parse_tensors({}, driver::AdamArgs(a[0]), a); }},
    {"prelu", parse_list<driver::PreluArgs>},
    {"rope", parse_list<driver::RopeArgs>},
    {"softmarginloss", parse_list<driver::SoftMarginArgs>},
    {"multimarginloss", parse_list<driver::MultiMarginArgs>},
    {"reduce",
     [](driver::DataType t, Arguments a) { parse_problem(driver::ReduceArgs(driver::ReduceArgs::kReduce, t), a); }},
    {"reduceextreme",
     [](driver::DataType t, Arguments a) { parse_problem(driver::ReduceArgs(driver::ReduceArgs::kExtreme, t), a); }},
    {"kthvalue", [](driver::DataType t, Arguments a) { parse_problem(driver::KthvalueArgs(t), a); }},
    {"getitem", [](driver::DataType, Arguments a) { parse_problem(driver::GetitemArgs(), a); }},
    {"cat",
     [](driver::DataType, Arguments a) {
       driver::CatArgs args;
       parse(args.rows(), a);
       args.output();
     }},
    {"ctc", [](driver::DataType t, Arguments a) { parse(driver::CtcArgs(t).rows(), a); }},
    {"mha", [](driver::DataType, Arguments a) { parse(driver::MhaArgs().rows(), a); }},
    {"lstm",
     [](driver::DataType, Arguments a) {
       driver::RnnArgs args;
       parse(args.rows(), a);
       args.check();
     }},
};

const std::vector<std::string>& lines() {
  static const std::vector<std::string> all = {
      "softmaxfp16 -n 2 -c 3 -H 5 -W 7 -a log -m channel -A 0.5 -B 1 -F 2",
      "pool -_ 3 -n 2 -c 3 -! 5 -H 6 -W 7 -y 2 -x 2 -p 1 -q 1 -u 2 -v 2 -m avg -I NDHWC --scale_alpha 2",
      "lrn -n 2 -c 9 -H 4 -W 4 -N 5 -A 1e-4 -B 0.75 -K 2 -m cross",
      "dropout -n 2 -c 3 -H 4 -W 5 -O NHWC -F 1 -p 0.25 -L 5 --reserve 0",
      "CBAInferfp16 -n 2 -c 4 -H 6 -W 6 -k 8 -y 3 -x 3 -p 1 -q 1 -F 0 -m 3",
      "biasfp16 -_ 3 -n 2 -c 3 -! 4 -H 5 -W 7 -I NDHWC -F 2 -i 3",
      "adamfp16 -n 3 -c 5 -H 4 -W 6 -I NHWC -l 0.01 --amsgrad 1 --step 7 --in_place 1",
      "prelu -D 4,3,5 -P 3 --in_strides 15,1,3",
      "rope -X 4,6,8 --rotary 6,8 -F 2 --dout_strides 48,8,1",
      "softmarginlossfp16 -D 4,25,3 -R mean -F 2 -C 0",
      "multimarginloss -D 41,5 -R sum --p 2 --margin 0.5",
      "reduce -D 4x5x6 -R 0,2 -O 3 -N 1 -I 1 -A 2 -B 1 --in_strides 30,6,1",
      "reduceextremefp16 -D 4,5,6 -R 1 -O 1 --indices_strides 6,6,1",
      "kthvalue -D 5x6x7 -k 3 -d -2 -K 1 --out_strides 42,7,1",
      "getitem -I 9x6@12x2 -O 50 -N 50 -D 0,1 --slices 0,1,9,2 --offset 6",
      "cat -1 2x3x4 -2 2x5x4@40x8x2 -d -2 --output_strides 32x4x1",
      "ctcfp16 -n 3 -c 7 -k 20,15,12 -l 5,4,3 -b 1 -m 0",
      "mha -n 2 -c 4 -H 16 -W 32 --mask causal --scale 0.5 -F 3",
      "lstm -n 4,3 -k 6 -H 8 -W 5 -l 2 -r 1 -b 1 -F 1 -I 2 --nohx 1"};
  return all;
}

}  // namespace

bool run_flags(const World&, Random& random, Counts& counts) {
  std::istringstream in(mutate(random, random.pick(lines()), lines()));
  const std::vector<std::string> arguments{std::istream_iterator<std::string>(in), {}};
  if (arguments.empty()) return true;
  for (const auto& [base, parse_line] : kParsers) {
    const driver::DataType type = driver::Bases{base, kTypes}.type_of(arguments[0]);
    if (type == driver::kNoType) continue;
    try {
      parse_line(type, arguments);
      ++counts.accepted;
      ++counts.used;
    } catch (const driver::ArgError&) {
      ++counts.refused;
    }
  }
  return true;
}

}  // namespace polymio::fuzz
