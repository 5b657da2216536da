// Activation of one element in double, by definition.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/activation/activation.h"

namespace polymio::activation {

/// f(x).
double value_at(Mode, const Parameters&, double x);
/// dy * f'(x). At a kink f' is the derivative from the left, except that of |x| at 0, which is 0.
double gradient_at(Mode, const Parameters&, double x, double dy);
/// The same from y = f(x), for functions whose derivative is a function of y.
double gradient_from_y(Mode, const Parameters&, double y, double dy);

}  // namespace polymio::activation
