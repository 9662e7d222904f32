// The arguments of collectives, plain and large.
#pragma once

#include "coll/call.hpp"
#include "mpi/plugin/native.hpp"

namespace tutti::mpi {

/// An array of counts or displacements, plain or large.
class CountList {
 public:
  explicit CountList(const int* narrow) : narrow_(narrow) {}
  /// MPI_Count or MPI_Aint, which some ABIs make one type.
  template <class Wide>
  requires(sizeof(Wide) == sizeof(long long)) explicit CountList(const Wide* wide)
      : wide_(reinterpret_cast<const long long*>(wide)) {}
  /// The same array.
  bool operator==(const CountList&) const noexcept = default;
  /// Of the large forms; displacements may then be addresses.
  bool wide() const noexcept { return wide_ != nullptr; }
  bool null() const noexcept { return narrow_ == nullptr && wide_ == nullptr; }
  long long operator[](int i) const noexcept { return narrow_ != nullptr ? narrow_[i] : wide_[i]; }
  /// Calls use(counts, displs) with the arrays themselves. Displacements may be wider than counts.
  /// Throws what it does.
  template <class Use>
  static auto with(CountList counts, CountList displs, Use use) {
    if (!displs.wide()) return use(counts.narrow_, displs.narrow_);
    return counts.wide() ? use(counts.wide_, displs.wide_) : use(counts.narrow_, displs.wide_);
  }

 private:
  const int* narrow_ = nullptr;
  const long long* wide_ = nullptr;
};

#include "mpi/generated/collective_args.inc"

/// A buffer as arguments describe it.
struct Elements {
  const void* buffer;
  MPI_Count count;
  MPI_Datatype type;
};

template <class Args>
Elements sent_by(const Args& args) noexcept {
  if constexpr (requires { args.buffer; }) {
    return {args.buffer, args.count, args.datatype};
  } else if constexpr (requires { args.sendcount; }) {
    return {args.sendbuf, args.sendcount, args.sendtype};
  } else if constexpr (requires { args.recvcount; }) {
    return {args.sendbuf, args.recvcount, args.datatype};
  } else {
    return {args.sendbuf, args.count, args.datatype};
  }
}

template <class Args>
Elements received_by(const Args& args) noexcept {
  if constexpr (requires { args.recvtype; }) {
    return {args.recvbuf, args.recvcount, args.recvtype};
  } else {
    Elements elements = sent_by(args);
    if constexpr (requires { args.recvbuf; }) elements.buffer = args.recvbuf;
    return elements;
  }
}

}  // namespace tutti::mpi
