// Iteration over implicit operands: positions of an axis, runs of constant stride, and the part of a run in bounds.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/operand.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// A position on an axis: index per level, element offset, and spatial coordinates relative to the operand's origin.
struct Cursor {
  i64 index[kLevels];
  i64 offset;
  i64 coord[kSpatial];
};

static inline void move_by(Cursor& cursor, const Level& level, i64 steps) {
  cursor.offset += steps * level.stride;
  if (level.dim >= 0) cursor.coord[level.dim] += steps * level.move;
}

/// The cursor at a position; takes a division per level.
static inline Cursor seek(const Axis& axis, i64 position) {
  Cursor cursor{};
  for (int l = kLevels - 1; l >= 0 && position > 0; --l) {
    const Level& level = axis.level[l];
    if (level.size == 1) continue;
    cursor.index[l] = l == 0 ? position : position % level.size;
    position /= level.size;
    move_by(cursor, level, cursor.index[l]);
  }
  return cursor;
}

/// Moves the cursor to the next position.
static inline void step(Cursor& cursor, const Axis& axis) {
  for (int l = kLevels - 1; l >= 0; --l) {
    const Level& level = axis.level[l];
    move_by(cursor, level, 1);
    if (++cursor.index[l] < level.size || l == 0) return;
    move_by(cursor, level, -cursor.index[l]);
    cursor.index[l] = 0;
  }
}

/// Consecutive positions of an axis that differ in its innermost level only; offset and coord are those of the first.
struct Run {
  int length;
  i64 offset;
  i64 coord[kSpatial];
};

/// Cuts `count` positions from `first` on into runs; returns how many, at most `count`.
static inline int cut_runs(const Axis& axis, i64 first, int count, Run* runs) {
  const Level& inner = axis.level[kLevels - 1];
  Cursor cursor = seek(axis, first);
  int run_count = 0;
  while (count > 0) {
    const i64 left = inner.size - cursor.index[kLevels - 1];
    const int length = left < count ? static_cast<int>(left) : count;
    Run& run = runs[run_count++];
    run.length = length;
    run.offset = cursor.offset;
    for (int d = 0; d < kSpatial; ++d) run.coord[d] = cursor.coord[d];
    count -= length;
    move_by(cursor, inner, length - 1);
    cursor.index[kLevels - 1] += length - 1;
    step(cursor, axis);
  }
  return run_count;
}

/// One line of an operand: the offset and the coordinates that all its positions have in common.
struct Line {
  i64 offset;
  i64 coord[kSpatial];
};

static inline Line line_at(const Operand& operand, const Cursor& cursor) {
  Line line{operand.offset + cursor.offset, {}};
  for (int d = 0; d < kSpatial; ++d) line.coord[d] = operand.origin[d] + cursor.coord[d];
  return line;
}

static inline bool is_bounded(const Operand& operand) {
  return (operand.extent[0] | operand.extent[1] | operand.extent[2]) != 0;
}

/// Narrows [low, high) to the e with 0 <= coord + e * move < extent.
static inline void clip(i64 coord, i64 move, i64 extent, int& low, int& high) {
  if (move == 1) {
    if (coord < 0) low = -coord < high ? static_cast<int>(-coord) : high;
    if (extent - coord < high) high = extent > coord ? static_cast<int>(extent - coord) : 0;
    return;
  }
  const auto outside = [=](i64 e) {
    return static_cast<std::uint64_t>(coord + e * move) >= static_cast<std::uint64_t>(extent);
  };
  while (low < high && outside(low)) ++low;
  while (low < high && outside(high - 1)) --high;
}

/// Narrows [low, high) to the positions of a run that are in bounds.
static inline void visible(const Operand& operand, const Level& inner, const Line& line, const Run& run, int& low,
                           int& high) {
  for (int d = 0; d < kSpatial; ++d) {
    if (operand.extent[d] == 0) continue;
    const i64 coord = line.coord[d] + run.coord[d];
    if (d == inner.dim) {
      clip(coord, inner.move, operand.extent[d], low, high);
    } else if (static_cast<std::uint64_t>(coord) >= static_cast<std::uint64_t>(operand.extent[d])) {
      high = 0;
    }
  }
  if (high < low) high = low;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
