# SPDX-License-Identifier: Apache-2.0
# heap_map.html, without its indentation and compressed, as an array of bytes:
#
#   cmake -DPAGE=heap_map.html -DOUT=heap_map_page.cc -P heap_map.cmake
file(READ ${PAGE} text)
string(REGEX REPLACE "\n +" "\n" text "${text}")
file(WRITE ${OUT}.html "${text}")
execute_process(COMMAND gzip -9nf ${OUT}.html COMMAND_ERROR_IS_FATAL ANY)
file(READ ${OUT}.html.gz bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR count "${digits} / 2")
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "#include \"telemetry/heap_map.h\"
namespace llamalloc {
const unsigned char kHeapMapPage[] = {${bytes}};
const size_t kHeapMapPageBytes = ${count};
}  // namespace llamalloc
")
