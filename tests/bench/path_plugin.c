// A plugin for QEMU's TCG: writes down which blocks of instructions a CPU of the guest executes
// between two marks of a program (tests/mpi/mark.h), the kernel's too. `map` starts QEMU with it.
//
//   -plugin file=path_plugin.so,out=FILE[,skip=0][,keep=1][,memory=1]
//
// FILE: for each operation a line "operation SERIES KIND NUMBER", then a line "ADDRESS
// INSTRUCTIONS LOCKED [LINE...]" for each block, in order. LOCKED: how many instructions lock the
// memory bus. LINE: with `memory`, each cache line of 64 bytes that a block of user space reads or
// writes. The first `skip` operations of a kind are not written, and no more than `keep` after
// them. Only what the CPU does that executed the first mark.
//
// The interface is version 1, of QEMU 4.2 to 8.2: "QEMU TCG Plugins" in QEMU's documentation.
// Debian packages no header for it, so what is used is declared here.

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*on_translation)(uint64_t plugin, struct qemu_plugin_tb*);
typedef void (*on_execution)(unsigned cpu, void* data);
typedef void (*on_access)(unsigned cpu, uint32_t how, uint64_t address, void* data);
enum { no_registers, reads_and_writes = 3 };

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t plugin, on_translation);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb*, on_execution, int, void* data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn*, on_execution, int,
                                            void* data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn*, on_access, int, int which,
                                      void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb*);
const void* qemu_plugin_insn_data(const struct qemu_plugin_insn*);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn*);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t plugin, const void* about,
                                                               int count, char** arguments);

enum { end_of_operation = 1, new_series = 2, first_kind = 0x10, most_kinds = 16 };
enum { most_blocks = 1 << 20, most_accesses = 1 << 20, line_bytes = 64 };
static const uint64_t kernel_begins = 0xffff000000000000;

struct block {
  uint64_t address;
  size_t instructions, locked;
};

struct access {
  size_t block;  // its place in `blocks`
  uint64_t line;
};

static FILE* out;
static long skip = 0, keep = 1;
static long series;
static long operations[most_kinds];
static const struct block* blocks[most_blocks];
static size_t block_count;
static struct access accesses[most_accesses];
static size_t access_count;
static bool memory;
static int kind;          // of the operation under way
static unsigned its_cpu;  // that executes it
static volatile bool on;

static void execute_block(unsigned cpu, void* block) {
  if (on && cpu == its_cpu && block_count < most_blocks) blocks[block_count++] = block;
}

static void access_memory(unsigned cpu, uint32_t how, uint64_t address, void* data) {
  (void)how, (void)data;
  if (!on || cpu != its_cpu || block_count == 0 || access_count == most_accesses) return;
  accesses[access_count++] = (struct access){block_count - 1, address / line_bytes};
}

static void write_operation(void) {
  fprintf(out, "operation %ld %d %ld\n", series, kind, operations[kind]);
  for (size_t i = 0, a = 0; i < block_count; ++i) {
    fprintf(out, "%lx %zu %zu", (unsigned long)blocks[i]->address, blocks[i]->instructions,
            blocks[i]->locked);
    for (; a < access_count && accesses[a].block == i; ++a) {
      fprintf(out, " %lx", (unsigned long)accesses[a].line);
    }
    fputc('\n', out);
  }
  fflush(out);
}

static void execute_mark(unsigned cpu, void* data) {
  const int which = (int)(intptr_t)data;
  if (which == new_series) {
    ++series;
    memset(operations, 0, sizeof operations);
  } else if (which == end_of_operation) {
    if (!on || cpu != its_cpu) return;
    on = false;
    write_operation();
  } else {
    kind = which - first_kind;
    const long number = ++operations[kind];
    if (number <= skip || number > skip + keep) return;
    block_count = access_count = 0;
    its_cpu = cpu;
    on = true;
  }
}

// Which mark the instruction is; 0: none.
static int mark_of(const struct qemu_plugin_insn* instruction) {
  if (qemu_plugin_insn_size(instruction) != 7) return 0;
  const unsigned char* const bytes = qemu_plugin_insn_data(instruction);
  if (memcmp(bytes, "\x0f\x1f\x80", 3) != 0 || memcmp(bytes + 4, "\x57\x65\x69", 3) != 0) return 0;
  const int which = bytes[3];
  const bool known = which == end_of_operation || which == new_series ||
                     (which >= first_kind && which < first_kind + most_kinds);
  return known ? which : 0;
}

// Whether the instruction has a lock prefix, or is an exchange with memory, which needs none.
static bool locks(const struct qemu_plugin_insn* instruction) {
  const unsigned char* const bytes = qemu_plugin_insn_data(instruction);
  const size_t size = qemu_plugin_insn_size(instruction);
  size_t i = 0;
  while (i < size && memchr("\x66\x67\xf2\xf3\x2e\x3e\x64\x65", bytes[i], 8) != NULL) ++i;
  if (i < size && bytes[i] == 0xf0) return true;
  if (i < size && (bytes[i] & 0xf0) == 0x40) ++i;
  return i + 1 < size && (bytes[i] & 0xfe) == 0x86 && bytes[i + 1] < 0xc0;
}

static void translate(uint64_t plugin, struct qemu_plugin_tb* tb) {
  (void)plugin;
  struct block* const block = malloc(sizeof *block);
  if (block == NULL) abort();
  block->address = qemu_plugin_tb_vaddr(tb);
  block->instructions = qemu_plugin_tb_n_insns(tb);
  block->locked = 0;
  qemu_plugin_register_vcpu_tb_exec_cb(tb, execute_block, no_registers, block);
  for (size_t i = 0; i < block->instructions; ++i) {
    struct qemu_plugin_insn* const instruction = qemu_plugin_tb_get_insn(tb, i);
    block->locked += locks(instruction);
    if (memory && block->address < kernel_begins) {
      qemu_plugin_register_vcpu_mem_cb(instruction, access_memory, no_registers, reads_and_writes,
                                       NULL);
    }
    const int which = mark_of(instruction);
    if (which == 0) continue;
    qemu_plugin_register_vcpu_insn_exec_cb(instruction, execute_mark, no_registers,
                                           (void*)(intptr_t)which);
  }
}

int qemu_plugin_install(uint64_t plugin, const void* about, int count, char** arguments) {
  (void)about;
  for (int i = 0; i < count; ++i) {
    if (strncmp(arguments[i], "out=", 4) == 0) out = fopen(arguments[i] + 4, "w");
    if (strncmp(arguments[i], "skip=", 5) == 0) skip = atol(arguments[i] + 5);
    if (strncmp(arguments[i], "keep=", 5) == 0) keep = atol(arguments[i] + 5);
    if (strcmp(arguments[i], "memory=1") == 0) memory = true;
  }
  if (out == NULL) {
    fprintf(stderr, "path_plugin: out=FILE is needed, and must be writable\n");
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(plugin, translate);
  return 0;
}
