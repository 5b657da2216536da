// Compiled for its precompiled headers only, which all tests share.
// SPDX-License-Identifier: MIT
int main() {}
