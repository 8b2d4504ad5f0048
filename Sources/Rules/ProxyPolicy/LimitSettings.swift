package import Settings

/// The limits of all tables and queues.
package struct LimitSettings: SettingsGroup {
    package var calls = 200_000
    package var callsPerAccount = 0
    /// A caller's share of a callee's limits, in percent (T32).
    package var callerShare = 50
    package var trustedShare = 25
    package var heldBytes = 536_870_912
    package var connections = 50_000
    package var connectionsPerSource = 64
    /// The maximum number of REGISTERs and of TLS handshakes per second from one source. Zero: no limit.
    package var registersPerSource = 2000
    package var handshakesPerSource = 400
    package var firstRequest: Duration = .seconds(20)
    package var authentication: Duration = .seconds(60)
    package var outputTimeout: Duration = .seconds(20)
    package var memory = 0
    package var queueing: Duration = .milliseconds(200)
    /// The maximum number of wrong passwords per minute (T8). Zero: no limit.
    package var wrongLoginsPerSource = 10
    package var wrongLoginsPerUser = 30

    package init() {}

    package static let schema: [Setting<LimitSettings>] = [
        .integer(
            "calls", in: 1...10_000_000, \.calls,
            "The maximum number of calls that ring or wait at the same time. Further callers get 503."),
        .integer(
            "calls-per-account", in: 0...10_000_000, \.callsPerAccount,
            "The maximum number of calls that ring or wait at the same time for one user. Further calls from the user's phones get 503, and further calls to the user get 486. 0: a sixteenth of limits.calls, and 32 at least."
        ),
        .integer(
            "caller-share", in: 1...100, \.callerShare,
            "The largest part, in per cent, of each limit of a callee that one caller may use: pushes a minute, held calls, "
                + "waiting requests, messages. A caller is an authenticated user, the user that a trusted peer names in "
                + "P-Asserted-Identity or From, or a source address. 100: one caller may use each limit alone."),
        .integer(
            "trusted-share", in: 0...90, \.trustedShare,
            "The percentage of each limit of a callee, and of limits.calls, limits.held-bytes, missed calls and records, that is reserved for "
                + "callers of trusted peers. Nothing is reserved if no peer is trusted."),
        .integer(
            "held-bytes", in: 1_048_576...1_099_511_627_776, \.heldBytes,
            "The maximum size in bytes of all waiting requests. Beyond this limit, further requests get 503. One user may use a sixteenth of it, and at least one mebibyte."
        ),
        .integer(
            "connections", in: 1...1_000_000, \.connections,
            "The maximum number of TCP connections. If the table is full, a new connection closes the oldest unauthenticated one. A connection is authenticated by an accepted REGISTER or password, or by its address under trusted. One user's password authenticates at most a sixteenth of all connections (at least 32), so that nobody can fill the table."
        ),
        .integer(
            "connections-per-source", in: 1...1_000_000, \.connectionsPerSource,
            "The maximum number of unauthenticated TCP connections from one IPv4 address or IPv6 /64."),
        .integer(
            "registers-per-source", in: 0...1_000_000, \.registersPerSource,
            "The maximum number of REGISTERs a second with a right password from one IPv4 address or IPv6 /64, and of a quarter as many without a right password. Further REGISTERs get 503 with Retry-After. As many as are allowed in ten seconds may come at once. Trusted peers are not limited. 0: no limit. Raise this limit if some thousand phones or more share one address."
        ),
        .integer(
            "handshakes-per-source", in: 0...1_000_000, \.handshakesPerSource,
            "The maximum number of TLS handshakes a second from one IPv4 address or IPv6 /64 with a right password or a trusted "
                + "certificate, and of a quarter as many without one. Further connections are closed immediately. As many as are allowed in ten seconds may come at once. The limit applies to SIP, WebSocket and the HTTP API. Trusted addresses are not limited. For a connection from load-balancers, the limit applies to the address in the PROXY header. 0: no limit."
        ),
        .duration(
            "first-request", in: .seconds(1) ... .seconds(3600), \.firstRequest,
            "The time limit for the first whole request on a TCP connection, from the start of the connection."),
        .duration(
            "authentication", in: .seconds(1) ... .seconds(3600), \.authentication,
            "The time limit for authentication on a TCP connection, if auth is on."),
        .duration(
            "output-timeout", in: .seconds(1) ... .seconds(3600), \.outputTimeout,
            "How long the peer of a TCP connection may take to read waiting output. After that the connection is closed."
        ),
        .integer(
            "memory", in: 0...1_099_511_627_776, \.memory,
            "The maximum memory of the process in bytes. Above four fifths of it, only trusted peers get new connections. 0: the limit of the control group (MemoryMax= in the unit), or no limit."
        ).taken(.atRestart),
        .duration(
            "queueing", in: .zero ... .seconds(10), \.queueing,
            "The overload threshold: how long requests may wait until they are read and persisted. While requests wait longer, new work gets 503 with Retry-After: first REGISTERs of users without a contact, then HTTP requests, then other REGISTERs, then INVITEs. Requests inside calls are always served. 0s: the daemon refuses nothing."
        ),
        .integer(
            "wrong-logins-per-source", in: 0...1_000_000, \.wrongLoginsPerSource,
            "The maximum number of wrong passwords, keys and ApiTokens a minute from one IPv4 address or IPv6 /64, over SIP and HTTP together. After that the daemon checks no passwords and ApiTokens from that address, and answers 503 (HTTP: 429) with Retry-After. Trusted peers are not limited. 0: no limit. Raise this limit if many phones share one address, or if a reverse proxy is in front of the HTTP API."
        ).taken(.atRestart),
        .integer(
            "wrong-logins-per-user", in: 0...1_000_000, \.wrongLoginsPerUser,
            "The maximum number of wrong passwords a minute for one user, from all addresses. After that the daemon checks the user's password only from addresses where the user has authenticated before. 0: no limit. Set this limit higher than wrong-logins-per-source, so that one address cannot lock out a user everywhere."
        ).taken(.atRestart),
    ]
}
