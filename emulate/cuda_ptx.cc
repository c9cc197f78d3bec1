#include "cuda_ptx.h"

#include <ctype.h>
#include <stdio.h>

namespace divvy::cuda {
namespace {

const char* SkipSpace(const char* at) {
  while (*at != '\0' && isspace(static_cast<unsigned char>(*at)) != 0) ++at;
  return at;
}

// Distinguishes a directive from the state space of an instruction such as ld.global.
bool IsAtStart(const char* text, const char* at) {
  return at == text || isspace(static_cast<unsigned char>(at[-1])) != 0;
}

bool IsWord(char c) { return isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$'; }

const char* ReadName(const char* at, char* name, size_t room) {
  size_t length = 0;
  at = SkipSpace(at);
  while (IsWord(*at)) {
    if (length + 1 < room) name[length++] = *at;
    ++at;
  }
  name[length] = '\0';
  return at;
}

// Returns the bytes of ".u64", ".b8" and so on; 0 if it is not a type.
size_t TypeBytes(const char* at) {
  if (strchr("usbf", at[1]) == nullptr || at[1] == '\0') return 0;
  const unsigned long bits = strtoul(at + 2, nullptr, 10);
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 0;
}

// Reads one declaration up to `,`, `)` or `;`: "[.align N] .type name[count]". Returns its end.
const char* ReadDeclaration(const char* at, size_t& bytes, size_t& alignment, char* name, size_t room) {
  size_t element = 0;
  size_t count = 1;
  alignment = 0;
  name[0] = '\0';
  while (*at != '\0' && *at != ',' && *at != ')' && *at != ';' && *at != '=' && *at != '{') {
    if (strncmp(at, ".align", 6) == 0) {
      char* end = nullptr;
      alignment = strtoul(at + 6, &end, 10);
      at = end;
    } else if (*at == '.') {
      if (TypeBytes(at) != 0) element = TypeBytes(at);
      ++at;
      while (IsWord(*at)) ++at;
    } else if (*at == '[') {
      count = strtoul(at + 1, nullptr, 10);
      while (*at != '\0' && *at != ']') ++at;
    } else if (IsWord(*at)) {
      at = ReadName(at, name, room);
    } else {
      ++at;
    }
  }
  bytes = element * count;
  if (alignment == 0) alignment = element == 0 ? 1 : element;
  return at;
}

const char* ReadEntry(const char* at, List<Function>& functions) {
  auto* function = New<OpaqueFunction>();
  at = SkipSpace(ReadName(at, function->name, sizeof(function->name)));
  function->duration_ns = kKernelNs;
  if (*at == '(') {
    ++at;
    for (at = SkipSpace(at); *at != '\0' && *at != ')'; at = SkipSpace(*at == ',' ? at + 1 : at)) {
      size_t bytes = 0;
      size_t alignment = 1;
      char name[8];
      at = ReadDeclaration(at, bytes, alignment, name, sizeof(name));
      if (function->parameter_count == 64) break;
      function->bytes = RoundUp(function->bytes, alignment);
      function->parameter_offset[function->parameter_count] = function->bytes;
      function->parameter_bytes[function->parameter_count++] = bytes;
      function->bytes += bytes;
      if (*at == ';' || *at == '=' || *at == '{') break;
    }
  }
  functions.Add(function);
  return at;
}

}  // namespace

void ReadPtx(const char* text, List<Function>& functions, List<Global>& globals) {
  for (const char* at = text; *at != '\0';) {
    if (at[0] == '/' && at[1] == '/') {
      at += strcspn(at, "\n");
    } else if (at[0] == '/' && at[1] == '*') {
      const char* end = strstr(at, "*/");
      at = end == nullptr ? at + strlen(at) : end + 2;
    } else if (strncmp(at, ".entry", 6) == 0) {
      at = ReadEntry(at + 6, functions);
    } else if (strncmp(at, ".global", 7) == 0 && !IsWord(at[7]) && IsAtStart(text, at)) {
      Global global = {};
      size_t alignment = 1;
      at = ReadDeclaration(at + 7, global.bytes, alignment, global.name, sizeof(global.name));
      if (*at == ';' || *at == '=') globals.Add(global);
    } else {
      ++at;
    }
  }
  for (const char* at = text; (at = strstr(at, "// divvy takes ")) != nullptr;) {
    char name[128];
    at = ReadName(at + 15, name, sizeof(name));
    const uint64_t nanoseconds = strtoull(at, nullptr, 10);
    for (Function function : functions) {
      if (strcmp(function->name, name) == 0) function->duration_ns = nanoseconds;
    }
  }
}

}  // namespace divvy::cuda
