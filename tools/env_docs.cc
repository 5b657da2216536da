// Prints docs/env.md from the table of environment variables.
// SPDX-License-Identifier: MIT
#include <cstdio>

#include "base/env.h"

int main() {
  std::puts("# Environment variables\n");
  std::puts("Every variable the library reads. Generated from `src/base/env.cc` by `env_docs`; a test compares.\n");
  std::puts("Attribute overrides, algorithm switches, logging and the instruction set are read once per process, the");
  std::puts(
      "folders at every cold call, the rest when a handle is created. Booleans: 1/0, yes/no, on/off, true/false, "
      "enable/disable.\n");
  std::puts("| variable | default | meaning |\n|---|---|---|");
  for (const auto* v : polymio::env::all()) std::printf("| `%s` | %s | %s |\n", v->name, v->fallback, v->help);
  return 0;
}
