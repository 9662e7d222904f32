// A record of all operations, for chrome://tracing or Perfetto.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fabric/wrap/forward.hpp"

namespace tutti::wrap {

/// Rank r writes PATH.r: a JSON array of events, one a line, with pid = rank; complete when the
/// rank ends in good order (viewers also take a file that was cut off). Costs two looks at the
/// clock and 48 bytes an operation; the file is written when 8192 operations have gathered.
class Trace final : public Forward {
 public:
  /// nullptr when the file cannot be made; `*message` says why.
  static std::unique_ptr<Fabric> open(std::unique_ptr<Fabric> inner, const std::string& path,
                                      std::string* message);
  ~Trace() override;

  Status expose(void* base, std::size_t bytes, Region* out) noexcept override;
  void withdraw(Region& region) noexcept override;
  Status attach(std::int32_t peer, const Key& key, Remote* out) noexcept override;
  Status reserve(std::size_t offset, std::size_t bytes) noexcept override;
  Status put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
             const Tail* tail, Completion* completion, Event event) noexcept override;
  Status get(const Remote& source, std::size_t offset, void* destination, std::size_t bytes,
             Completion* completion) noexcept override;

 protected:
  void signal_virtually(std::int32_t peer, Word& word, std::uint64_t value) noexcept override;

 private:
  struct Record {
    const char* name;
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
    std::uint64_t bytes;
    std::int32_t peer;
    Code code;
  };

  Trace(std::unique_ptr<Fabric> inner, int file) : Forward(std::move(inner), true), file_(file) {}
  Status record(const char* name, std::uint64_t begin_ns, std::int32_t peer, std::size_t bytes,
                Status status) noexcept;
  void write() noexcept;
  void put_out(const char* text, std::size_t bytes) noexcept;

  std::vector<Record> events_;
  int file_;
  bool failed_ = false;  // writing did; said once
};

}  // namespace tutti::wrap
