package import Settings

/// Settings for the limits of all tables and queues.
package struct LimitSettings: SettingsGroup {
    package var calls = 200_000
    package var callsPerAccount = 0
    /// The percentage of a callee's limits that one caller may use (T32).
    package var callerShare = 50
    package var trustedShare = 25
    package var heldBytes = 536_870_912
    package var connections = 50_000
    package var connectionsPerSource = 64
    /// The maximum number of REGISTERs per second from one source; zero for no limit.
    package var registersPerSource = 2000
    package var handshakesPerSource = 400
    package var firstRequest: Duration = .seconds(20)
    package var authentication: Duration = .seconds(60)
    package var outputTimeout: Duration = .seconds(20)
    package var memory = 0
    package var queueing: Duration = .milliseconds(200)
    /// The maximum number of wrong passwords per minute from one source; zero for no limit (T8).
    package var wrongLoginsPerSource = 10
    package var wrongLoginsPerUser = 30

    package init() {}

    package static let schema: [Setting<LimitSettings>] = [
        .integer(
            "calls", in: 1...10_000_000, \.calls,
            "The maximum number of calls that ring or wait at the same time. When the limit of ringing and waiting calls is reached, a further call gets 503."
        ),
        .integer(
            "calls-per-account", in: 0...10_000_000, \.callsPerAccount,
            "The maximum number of calls that ring or wait at the same time for one user. Further calls from the user's phones get 503, and further calls to the user get 486. The value `0` means a sixteenth of `limits.calls`, but at least 32 calls."
        ),
        .integer(
            "caller-share", in: 1...100, \.callerShare,
            "The percentage of a callee's limits that one caller may use: the limits of pushes a minute, held calls, waiting requests, and messages. The caller is the authenticated user, or the user that a trusted peer names in `P-Asserted-Identity` or `From`, or else the source address of the call. With `100`, one caller may use up a callee's whole limit."
        ),
        .integer(
            "trusted-share", in: 0...90, \.trustedShare,
            "The percentage of some limits that the daemon reserves for callers behind trusted peers. The daemon reserves "
                + "this percentage of a callee's limits, of `limits.calls` and `limits.held-bytes`, and of the room for missed "
                + "calls and timeline records. If `trusted` is empty, the daemon reserves nothing."),
        .integer(
            "held-bytes", in: 1_048_576...1_099_511_627_776, \.heldBytes,
            "The maximum size in bytes of all waiting requests. A request that would exceed the memory limit for waiting requests gets 503. One user may use a sixteenth of `limits.held-bytes`, but at least one mebibyte."
        ),
        .integer(
            "connections", in: 1...1_000_000, \.connections,
            "The maximum number of TCP connections. When the limit of connections is reached, the daemon closes the oldest unauthenticated connection for each new connection. A connection is authenticated by an accepted REGISTER or password, or by an address in `trusted`. One user's password authenticates at most a sixteenth of all connections (at least 32), so that no user can take all connections."
        ),
        .integer(
            "connections-per-source", in: 1...1_000_000, \.connectionsPerSource,
            "The maximum number of unauthenticated TCP connections from one IPv4 address or IPv6 /64."),
        .integer(
            "registers-per-source", in: 0...1_000_000, \.registersPerSource,
            "The maximum number of REGISTERs in a second from one IPv4 address or IPv6 /64, if they have a right password. For REGISTERs without a right password, the limit is a quarter of `registers-per-source`. REGISTERs beyond the limit get 503 with `Retry-After`. A short burst can have as many REGISTERs as the limit allows in ten seconds. `registers-per-source` does not limit trusted peers. The value `0` means that there is no limit. Raise `registers-per-source` if some thousand phones or more share one address."
        ),
        .integer(
            "handshakes-per-source", in: 0...1_000_000, \.handshakesPerSource,
            "The maximum number of TLS handshakes in a second from one IPv4 address or IPv6 /64, if its connections authenticate by a password or a trusted certificate. For connections that do not authenticate, the limit is a quarter of `handshakes-per-source`. The daemon immediately closes connections beyond the limit. A short burst can have as many handshakes as the limit allows in ten seconds. The daemon counts TLS handshakes for SIP, WebSocket and the HTTP API together. `handshakes-per-source` does not limit trusted addresses. For a connection from `load-balancers`, the limit applies to the address in the PROXY header. The value `0` means that there is no limit."
        ),
        .duration(
            "first-request", in: .seconds(1) ... .seconds(3600), \.firstRequest,
            "The time limit from the start of a TCP connection until its first complete request has arrived."),
        .duration(
            "authentication", in: .seconds(1) ... .seconds(3600), \.authentication,
            "The time limit for authentication on a TCP connection, if `auth` is `digest`."),
        .duration(
            "output-timeout", in: .seconds(1) ... .seconds(3600), \.outputTimeout,
            "How long the peer of a TCP connection can leave the daemon's output unread before the daemon closes the connection."
        ),
        .integer(
            "memory", in: 0...1_099_511_627_776, \.memory,
            "The maximum memory of the process in bytes. Above four fifths of `limits.memory`, the daemon accepts new connections only from trusted peers. The value `0` means the limit of the control group (MemoryMax= in the unit), or no limit if the control group has none."
        ).taken(.atRestart),
        .duration(
            "queueing", in: .zero ... .seconds(10), \.queueing,
            "The overload threshold: how long requests can wait until the daemon has read them and written their changes to the disk. While requests wait longer than this threshold, the daemon refuses new requests with 503 and `Retry-After`, in this order: first REGISTERs of users without a contact, then HTTP requests, then other REGISTERs, then INVITEs. The daemon always serves requests inside calls. With `0s`, the daemon refuses no requests because of overload."
        ),
        .integer(
            "wrong-logins-per-source", in: 0...1_000_000, \.wrongLoginsPerSource,
            "The maximum number of wrong passwords, keys and ApiTokens a minute from one IPv4 address or IPv6 /64, over SIP and HTTP together. After more wrong passwords, keys or ApiTokens, the daemon checks no password or ApiToken from the address, and answers 503 (HTTP: 429) with `Retry-After`. `wrong-logins-per-source` does not limit trusted peers. The value `0` means that there is no limit. Raise `wrong-logins-per-source` if many phones share one address, or if a reverse proxy is in front of the HTTP API."
        ).taken(.atRestart),
        .integer(
            "wrong-logins-per-user", in: 0...1_000_000, \.wrongLoginsPerUser,
            "The maximum number of wrong passwords a minute for one user, from all addresses. After more wrong passwords, the daemon checks the user's password only from addresses where the user has authenticated before. The value `0` means that there is no limit. Set `wrong-logins-per-user` higher than `wrong-logins-per-source`, so that one address cannot lock out a user everywhere."
        ).taken(.atRestart),
    ]
}
