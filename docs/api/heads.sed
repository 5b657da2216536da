# Makes Doxygen read the comment at the head of a header as that of the file, and the rules in types.h as a page.
# Keeps the numbers of lines. SPDX-License-Identifier: MIT
1,/SPDX-License-Identifier/ {
  s,^// SPDX-License-Identifier.*,/// @file,
  s,^// ,/// ,
}
/^\/\/ Rules for all groups/,/^$/ {
  s,^// Rules for all groups.*,/// @page rules Rules for all groups,
  s,^//,///,
}
