// The harness: the one host program that launches kernels under test, on the HIP module API only.
//
//   harness JOBFILE
//
// It judges nothing. It loads a code object, fills buffers from files, launches, and writes every buffer back
// to files; the parent made those files (with poison and red zones) and compares them. Expected values are
// never in this process, where a kernel could reach them. The result file holds one line per finished case;
// a case without a line has no evidence and counts as failed.
//
// Job file, one directive a line, in this order:
//   hipsmith-harness 1
//   result PATH            where the outcome of each case goes
//   module PATH            code object, plain ELF
//   kernel SYMBOL
//   case NAME              begins a case; cases run in the order of the file
//   fresh                  (in a case) load the module again first, so that device globals start anew
//   buffer BYTES PATH      (in a case) an allocation and its contents; numbered from 0
//   dump INDEX PATH        (in a case) where the allocation goes afterwards
//   global SYMBOL PATH     (in a case) contents of a device variable before the launch
//   launch GX GY GZ BX BY BZ LDS   (in a case) grid in workgroups, block in threads, dynamic LDS in bytes
//   value HEX              (in a case) next kernel argument, by value
//   pointer INDEX OFFSET   (in a case) next kernel argument, a pointer into a buffer
//   run                    ends the case and executes it
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Buffer {
  size_t bytes = 0;
  std::string from;
  std::string to;
  void *at = nullptr;
};

struct Argument {
  bool pointer = false;
  size_t buffer = 0;
  size_t offset = 0;
  std::vector<unsigned char> bytes;
};

struct Global {
  std::string symbol;
  std::string from;
};

struct Case {
  std::string name;
  bool fresh = false;
  unsigned launch[7] = {0, 0, 0, 0, 0, 0, 0};
  std::vector<Buffer> buffers;
  std::vector<Argument> arguments;
  std::vector<Global> globals;
};

std::ofstream result;

[[noreturn]] void refuse(const std::string &what) {
  std::fprintf(stderr, "harness: %s\n", what.c_str());
  std::exit(2);
}

// One line of the result file, flushed at once: what is not there did not happen.
void say(const std::string &line) {
  result << line << '\n' << std::flush;
  if (!result) refuse("the result file cannot be written");
}

struct Failure {
  std::string stage;
  hipError_t code;
};

void check(hipError_t code, const char *stage) {
  if (code != hipSuccess) throw Failure{stage, code};
}

std::vector<char> contents(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse("cannot read " + path);
  return std::vector<char>(std::istreambuf_iterator<char>(in), {});
}

struct Device {
  std::string image_path;
  std::string kernel;
  std::vector<char> image;
  hipModule_t module = nullptr;
  hipFunction_t function = nullptr;

  void load(bool fresh) {
    if (module && !fresh) return;
    if (module) check(hipModuleUnload(module), "hipModuleUnload");
    module = nullptr;
    if (image.empty()) image = contents(image_path);
    check(hipModuleLoadData(&module, image.data()), "hipModuleLoadData");
    check(hipModuleGetFunction(&function, module, kernel.c_str()), "hipModuleGetFunction");
  }

  void run(Case &c) {
    load(c.fresh);
    for (Buffer &b : c.buffers) {
      std::vector<char> bytes = contents(b.from);
      if (bytes.size() != b.bytes) refuse(b.from + " has another size than the job says");
      if (b.bytes == 0) continue;
      check(hipMalloc(&b.at, b.bytes), "hipMalloc");
      check(hipMemcpy(b.at, bytes.data(), b.bytes, hipMemcpyHostToDevice), "hipMemcpy to the device");
    }
    for (const Global &g : c.globals) {
      std::vector<char> bytes = contents(g.from);
      hipDeviceptr_t at = nullptr;
      size_t size = 0;
      check(hipModuleGetGlobal(&at, &size, module, g.symbol.c_str()), "hipModuleGetGlobal");
      if (size != bytes.size()) refuse(g.symbol + " has another size than the job says");
      check(hipMemcpy(at, bytes.data(), size, hipMemcpyHostToDevice), "hipMemcpy to a device variable");
    }
    std::vector<void *> places;
    std::vector<void *> pointers(c.arguments.size());
    for (size_t i = 0; i < c.arguments.size(); ++i) {
      Argument &a = c.arguments[i];
      if (a.pointer) {
        pointers[i] = static_cast<char *>(c.buffers[a.buffer].at) + a.offset;
        places.push_back(&pointers[i]);
      } else {
        places.push_back(a.bytes.data());
      }
    }
    const unsigned *l = c.launch;
    check(hipModuleLaunchKernel(function, l[0], l[1], l[2], l[3], l[4], l[5], l[6], nullptr, places.data(), nullptr),
          "hipModuleLaunchKernel");
    check(hipGetLastError(), "hipGetLastError after the launch");
    check(hipDeviceSynchronize(), "hipDeviceSynchronize");
    check(hipGetLastError(), "hipGetLastError after the end");
    for (Buffer &b : c.buffers) {
      if (b.at == nullptr) continue;
      if (!b.to.empty()) {
        std::vector<char> bytes(b.bytes);
        check(hipMemcpy(bytes.data(), b.at, b.bytes, hipMemcpyDeviceToHost), "hipMemcpy from the device");
        std::ofstream out(b.to, std::ios::binary);
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        if (!out.flush()) refuse("cannot write " + b.to);
      }
      check(hipFree(b.at), "hipFree");
      b.at = nullptr;
    }
  }
};

std::string rest(std::istringstream &in) {
  std::string text;
  std::getline(in >> std::ws, text);
  return text;
}

std::vector<unsigned char> unhex(const std::string &text) {
  std::vector<unsigned char> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<unsigned char>(std::strtoul(text.substr(i, 2).c_str(), nullptr, 16)));
  return bytes;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) refuse("usage: harness JOBFILE");
  std::ifstream job(argv[1]);
  std::string line;
  if (!std::getline(job, line) || line != "hipsmith-harness 1") refuse("not a job file of version 1");
  Device device;
  Case c;
  while (std::getline(job, line)) {
    std::istringstream in(line);
    std::string word;
    in >> word;
    if (word == "result") {
      result.open(rest(in));
      if (!result) refuse("cannot write the result file");
    } else if (word == "module") {
      device.image_path = rest(in);
    } else if (word == "kernel") {
      device.kernel = rest(in);
    } else if (word == "case") {
      c = Case{};
      c.name = rest(in);
    } else if (word == "fresh") {
      c.fresh = true;
    } else if (word == "buffer") {
      Buffer b;
      in >> b.bytes;
      b.from = rest(in);
      c.buffers.push_back(b);
    } else if (word == "dump") {
      size_t index = 0;
      in >> index;
      if (!in || index >= c.buffers.size()) refuse("dump of an unknown buffer: " + line);
      c.buffers[index].to = rest(in);
    } else if (word == "global") {
      Global g;
      in >> g.symbol;
      g.from = rest(in);
      c.globals.push_back(g);
    } else if (word == "launch") {
      for (unsigned &v : c.launch) in >> v;
      if (!in) refuse("bad launch: " + line);
    } else if (word == "value") {
      Argument a;
      a.bytes = unhex(rest(in));
      c.arguments.push_back(a);
    } else if (word == "pointer") {
      Argument a;
      a.pointer = true;
      in >> a.buffer >> a.offset;
      if (!in || a.buffer >= c.buffers.size()) refuse("pointer into an unknown buffer: " + line);
      c.arguments.push_back(a);
    } else if (word == "run") {
      try {
        device.run(c);
      } catch (const Failure &f) {
        // After a device error nothing later in this process can be trusted.
        say("failed " + std::to_string(static_cast<int>(f.code)) + " " + hipGetErrorName(f.code) + " in " + f.stage);
        return 1;
      }
      say("done " + c.name);
    } else {
      refuse("unknown directive: " + line);
    }
  }
  say("end");
  return 0;
}
