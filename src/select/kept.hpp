// What trials have shown, kept from one run to the next (TUTTI_CHOICE=FILE).
//
// The file has rules in the language of TUTTI_CHOICES (docs/choices.md), one for each kind of call
// that is not run as the rules have it, under a line that says whose they are:
//
//   # tutti 0.1.0 on MPICH 5.0.2: kept by TUTTI_CHOICE, may be deleted
//   [node ranks=4 processors=own]
//   allreduce: 1024..2047 mpi    # two_shot took 1.31 times as long
//
// It is replaced as a whole, so whoever reads it finds one state or the other.
#pragma once

#include <string>
#include <vector>

#include "coll/call.hpp"
#include "select/rules.hpp"

namespace tutti {

/// Who runs one kind of call of teams of one shape, as a trial has shown.
struct Learnt {
  Coll coll = Coll::barrier;
  int size = 0;  // members
  Where::Place place = Where::Place::node;
  bool scarce = false;              // ranks share processors
  bool bypass = false;              // the network between its nodes is past the kernel
  bool whole = false;               // operators that fold whole vectors only: not kept
  std::size_t least = 0, most = 0;  // Call::bytes
  Choice taken, against;            // who runs it, and who lost
  bool chosen = true;               // that is what the rules choose
  double ratio = 0;                 // the loser's time by the other's
  int trials = 0;
};

/// Reads the file of that host ("MPICH 5.0.2"). What cannot be used is as if there were none, and
/// `*message` says why in one line; a file that does not exist is no reason.
Rules read_kept(const std::string& path, const std::string& host, std::string* message);

/// Writes what was learnt of operators of tutti's own into the file, beside what it has of other
/// kinds of calls. On failure the
/// file is as it was, and `*message` says why.
Status write_kept(const std::string& path, const std::string& host,
                  const std::vector<Learnt>& learnt, std::string* message);

}  // namespace tutti
