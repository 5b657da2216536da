// Activation functions and their derivatives. -DMODE is the number of the function in the C API, or 11.
// SPDX-License-Identifier: MIT
#pragma once

#define LOGISTIC 1
#define TANH 2
#define RELU 3
#define SOFTRELU 4
#define ABS 5
#define POWER 6
#define CLIPPED_RELU 7
#define LEAKY_RELU 8
#define ELU 9
#define CLAMP 10
#define SWISH 11  // of epilogues

/// f(x). NaN gives NaN.
INLINE num activate(const int mode, num x, num alpha, num beta, num gamma) {
  const num u = mode == LOGISTIC || mode == SOFTRELU ? exp_of(-abs_of(x)) : 0;
  switch (mode) {
    case LOGISTIC: return quotient_of(x >= 0 ? 1 : u, 1 + u);
    case TANH: {
      const num z = x * alpha, e = expm1_nonpositive(-2 * abs_of(z)), t = quotient_of(e, e + 2);
      return (z < 0 ? t : -t) * beta;
    }
    case RELU: return x <= 0 ? 0 : x;
    case SOFTRELU: return (x > 0 ? x : 0) + log1p_unit(u);
    case ABS: return abs_of(x);
#if NUMBERS == NUMBERS_double
    case POWER: {
      const num base = alpha + beta * x;
      return base <= 0 ? 0 : power(base, gamma);
    }
#endif
    case CLIPPED_RELU: {
      const num positive = x <= 0 ? 0 : x;
      return positive > alpha ? alpha : positive;
    }
    case LEAKY_RELU: return x <= 0 ? x * alpha : x;
    case ELU: return x <= 0 ? expm1_nonpositive(x) * alpha : x;
    case CLAMP: {
      const num below = x > beta ? beta : x;
      return below < alpha ? alpha : below;
    }
    case SWISH: {
      const num z = x * alpha, e = exp_of(-abs_of(z));
      return x * quotient_of(z >= 0 ? 1 : e, 1 + e);
    }
    default: return x;
  }
}

/// dy f'(x): at a kink the derivative from the left, but 0 for |x| at 0.
INLINE num gradient(const int mode, num x, num dy, num alpha, num beta, num gamma) {
  const num u = mode == LOGISTIC || mode == SOFTRELU ? exp_of(-abs_of(x))
                : mode == TANH                       ? exp_of(-2 * abs_of(x * alpha))
                                                     : 0;
  switch (mode) {
    case LOGISTIC: return dy * quotient_of(u, (1 + u) * (1 + u));
    case TANH: return dy * quotient_of(u, (1 + u) * (1 + u)) * (4 * alpha * beta);
    case RELU: return x <= 0 ? 0 : dy;
    case SOFTRELU: return dy * quotient_of(x >= 0 ? 1 : u, 1 + u);
    case ABS: return x < 0 ? -dy : x > 0 ? dy : 0;
#if NUMBERS == NUMBERS_double
    case POWER: {
      const num base = alpha + beta * x;
      return base <= 0 ? 0 : dy * (gamma * beta) * power(base, gamma - 1);
    }
#endif
    case CLIPPED_RELU: return x <= 0 || x > alpha ? 0 : dy;
    case LEAKY_RELU: return x <= 0 ? dy * alpha : dy;
    case ELU: return x <= 0 ? dy * (exp_of(x) * alpha) : dy;
    case CLAMP: return x <= alpha || x > beta ? 0 : dy;
    default: return dy;
  }
}

/// The same from y = f(x), for functions whose derivative is a function of y.
INLINE num gradient_from_y(const int mode, num y, num dy, num alpha, num beta, num gamma) {
  const num t = beta != 0 ? y / beta : 0;
  switch (mode) {
    case LOGISTIC: return dy * (y * (1 - y));
    case TANH: return dy * ((1 - t * t) * (alpha * beta));
    case SOFTRELU: return dy * -expm1_nonpositive(-y);
    case ELU: return y <= 0 ? dy * (y + alpha) : dy;
    default: return gradient(mode, y, dy, alpha, beta, gamma);
  }
}
