// SPDX-License-Identifier: MIT
#include "primitives/activation/scalar.h"

#include <cmath>

namespace polymio::activation {
namespace {

double logistic(double x) {
  const double u = std::exp(-std::fabs(x));
  return (x >= 0 ? 1 : u) / (1 + u);
}

}  // namespace

double value_at(Mode mode, const Parameters& p, double x) {
  switch (mode) {
    case Mode::kPassthru: break;
    case Mode::kLogistic: return logistic(x);
    case Mode::kTanh: return p.beta * std::tanh(p.alpha * x);
    case Mode::kRelu: return x <= 0 ? 0 : x;
    case Mode::kSoftrelu: return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x)));
    case Mode::kAbs: return std::fabs(x);
    case Mode::kPower: {
      const double base = p.alpha + p.beta * x;
      return base <= 0 ? 0 : std::pow(base, p.gamma);
    }
    case Mode::kClippedRelu: {
      const double positive = x <= 0 ? 0 : x;
      return positive > p.alpha ? p.alpha : positive;
    }
    case Mode::kLeakyRelu: return x <= 0 ? p.alpha * x : x;
    case Mode::kElu: return x <= 0 ? p.alpha * std::expm1(x) : x;
    case Mode::kClamp: {
      const double below = x > p.beta ? p.beta : x;
      return below < p.alpha ? p.alpha : below;
    }
    case Mode::kSwish: return x * logistic(p.alpha * x);
  }
  return x;
}

double gradient_at(Mode mode, const Parameters& p, double x, double dy) {
  switch (mode) {
    case Mode::kPassthru:
    case Mode::kSwish: break;  // of epilogues, which have no gradients
    case Mode::kLogistic: return dy * logistic(x) * logistic(-x);
    case Mode::kTanh: {
      const double u = std::exp(-2 * std::fabs(p.alpha * x));
      return dy * p.alpha * p.beta * 4 * u / ((1 + u) * (1 + u));
    }
    case Mode::kRelu: return x <= 0 ? 0 : dy;
    case Mode::kSoftrelu: return dy * logistic(x);
    case Mode::kAbs: return x > 0 ? dy : x < 0 ? -dy : 0;
    case Mode::kPower: {
      const double base = p.alpha + p.beta * x;
      return base <= 0 ? 0 : dy * p.gamma * p.beta * std::pow(base, p.gamma - 1);
    }
    case Mode::kClippedRelu: return x <= 0 || x > p.alpha ? 0 : dy;
    case Mode::kLeakyRelu: return x <= 0 ? dy * p.alpha : dy;
    case Mode::kElu: return x <= 0 ? dy * p.alpha * std::exp(x) : dy;
    case Mode::kClamp: return x <= p.alpha || x > p.beta ? 0 : dy;
  }
  return dy;
}

double gradient_from_y(Mode mode, const Parameters& p, double y, double dy) {
  switch (mode) {
    case Mode::kLogistic: return dy * y * (1 - y);
    case Mode::kTanh: {
      const double t = p.beta != 0 ? y / p.beta : 0;
      return dy * p.alpha * p.beta * (1 - t * t);
    }
    case Mode::kSoftrelu: return dy * -std::expm1(-y);
    case Mode::kElu: return y <= 0 ? dy * (y + p.alpha) : dy;
    default: return gradient_at(mode, p, y, dy);
  }
}

}  // namespace polymio::activation
