// The MIOpen C API, all groups. Include this, or only the header of the group that you use.
// The rules that hold for every function (errors, ownership, threads, units) are in types.h; the
// extensions of this library (devices, memory, last error text) are in polymio.h.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_MIOPEN_H_
#define MIOPEN_MIOPEN_H_

#include <miopen/activation.h>
#include <miopen/batchnorm.h>
#include <miopen/cat.h>
#include <miopen/convolution.h>
#include <miopen/dropout.h>
#include <miopen/find2.h>
#include <miopen/fusion.h>
#include <miopen/getitem.h>
#include <miopen/graph.h>
#include <miopen/groupnorm.h>
#include <miopen/handle.h>
#include <miopen/kthvalue.h>
#include <miopen/layernorm.h>
#include <miopen/loss.h>
#include <miopen/lrn.h>
#include <miopen/optimizer.h>
#include <miopen/pooling.h>
#include <miopen/prelu.h>
#include <miopen/reduce_calculation.h>
#include <miopen/reduce_extreme.h>
#include <miopen/reduce_tensor.h>
#include <miopen/rnn.h>
#include <miopen/rope.h>
#include <miopen/softmax.h>
#include <miopen/solver.h>
#include <miopen/tensor.h>
#include <miopen/types.h>
#include <miopen/version.h>

#endif  // MIOPEN_MIOPEN_H_
