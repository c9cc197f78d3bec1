// The limits of the HTTP server.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "daemon/http/http_reply.h"
#include "wire/http/http.h"

namespace divvy {

struct HttpServerOptions {
  std::string path;
  unsigned mode = 0600;                           // File mode of the socket; it controls who may connect.
  std::size_t connections = 4096;                 // Limit on the Unix socket; further connections get status 503.
  std::size_t reserved_connections = 256;         // Part of `connections`, for root and the daemon's own user.
  std::size_t connections_of_a_local_user = 256;  // Part of `connections`, for each other user.
  std::size_t requests_in_flight = 4096;          // Per connection; when reached, reading stops.
  std::size_t output_bytes = 1u << 20;            // Unsent answers of a connection; when reached, reading stops.
  std::size_t stream_backlog_bytes = 4u << 20;    // Unsent bytes of a stream; when exceeded, the connection is dropped.
  std::size_t fds_per_request = 6;                // stdin, stdout, stderr, and a relay for each.
  // Limits over TLS and over plain TCP. When a limit is reached, the oldest connection that waits for no answer is
  // closed. If there is none, the new connection is closed. All of 127.0.0.0/8 and ::1 count as one address.
  std::size_t remote_connections = 1024;
  // Part of `remote_connections`, so that one machine cannot take them all.
  std::size_t connections_of_an_address = 256;
  std::size_t plain_connections = 256;
  // Connections from agents' nodes (Adopt); further ones get status 503.
  std::size_t node_connections = 2048;
  std::size_t connections_of_a_node = 256;  // Part of `node_connections`; an agent carries no more.
  // Part of `node_connections`, counted by the controller's uid of the user over all nodes.
  std::size_t connections_of_a_user = 512;
  HttpLimits remote_limits = {.header_bytes = 16u << 10, .body_bytes = 1u << 20};
  /// The time limit for each request from its first byte, and for each next piece of an answer until the client takes
  /// it. Over TCP it also covers the handshake and the first request together.
  std::chrono::milliseconds request_time = std::chrono::seconds(20);
  HttpLimits limits = {.body_bytes = 16u << 20};
  /// Limits on bytes of requests that are incomplete or not yet answered: per user or address, and in total. Requests
  /// beyond them get status 503. Small requests are accepted even if other clients have used up the total.
  std::size_t held_bytes_of_a_user = 17u << 20;
  std::size_t held_bytes = 68u << 20;
  /// Optional. Called for each accepted connection on the Unix socket, before its first request.
  std::function<void(int connection, const Peer& peer)> on_local;
};

}  // namespace divvy
