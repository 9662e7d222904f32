// The simulation and the models, for the module tutti._core.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "coll/call.hpp"
#include "fabric/sim/network.hpp"
#include "model/rendezvous2006.hpp"
#include "p2p/messages.hpp"

// What the bindings share. All throw std::invalid_argument, Python's ValueError.

/// Errors become ValueError with the one line that the core has for them.
void require(tutti::Status status, const std::string& message);
/// The network profile in a file.
tutti::sim::Network load_profile(const std::string& path);
tutti::Coll parse_collective(const std::string& op);
/// `what`: of the time, for the error.
/// "write", "read" or "read_interrupt"; else throws.
tutti::model::Rendezvous parse_protocol(const std::string& text);
tutti::p2p::Protocol protocol_of(tutti::model::Rendezvous which);
tutti::sim::Time picoseconds(double us, const char* what);

void bind_simulation(nanobind::module_& module);
void bind_programs(nanobind::module_& module);
void bind_dedicated(nanobind::module_& module);
void bind_models(nanobind::module_& module);
void bind_where(nanobind::module_& module);
void bind_trace(nanobind::module_& module);
void bind_report(nanobind::module_& module);
