package import Settings

/// Numbers that every table and queue keeps to.
package struct LimitSettings: SettingsGroup {
    package var calls = 200_000
    package var callsPerAccount = 0
    /// Hundredths of what belongs to one who is called (T32).
    package var callerShare = 50
    package var trustedShare = 25
    package var heldBytes = 536_870_912
    package var connections = 50_000
    package var connectionsPerSource = 64
    /// A second. Zero: no limit.
    package var registersPerSource = 2000
    package var handshakesPerSource = 400
    package var firstRequest: Duration = .seconds(20)
    package var authentication: Duration = .seconds(60)
    package var outputTimeout: Duration = .seconds(20)
    package var memory = 0
    package var queueing: Duration = .milliseconds(200)
    /// Wrong passwords in a minute (T8). Zero: no limit.
    package var wrongLoginsPerSource = 10
    package var wrongLoginsPerUser = 30

    package init() {}

    package static let schema: [Setting<LimitSettings>] = [
        .integer(
            "calls", in: 1...10_000_000, \.calls, "Calls that are offered at the same time; beyond it callers get 503."),
        .integer(
            "calls-per-account", in: 0...10_000_000, \.callsPerAccount,
            "How many of them one user may hold: made by a phone that proved to be his (more get 503), or made to him "
                + "(486). 0: a sixteenth of limits.calls, and 32 at least."),
        .integer(
            "caller-share", in: 1...100, \.callerShare,
            "How many per cent of what belongs to one called user one caller may have: pushes a minute, held calls, requests "
                + "that wait, messages. A caller is a user who has shown a password, whom a trusted peer names in "
                + "P-Asserted-Identity or From, or an address. 100: one caller may use up all of it."),
        .integer(
            "trusted-share", in: 0...90, \.trustedShare,
            "How many per cent of it, and of limits.calls, limits.held-bytes, missed calls and records, only callers have "
                + "whom trusted peers bring. Nothing is kept for them where no peer is trusted."),
        .integer(
            "held-bytes", in: 1_048_576...1_099_511_627_776, \.heldBytes,
            "Bytes of all requests that wait for their answer; beyond it callers get 503. One user may hold a sixteenth, "
                + "and a mebibyte at least."),
        .integer(
            "connections", in: 1...1_000_000, \.connections,
            "TCP connections at the same time. Beyond it the oldest that has not proved itself gives way to a new one. A connection has proved itself when a REGISTER or a password was accepted on it, or by its address under trusted; one user's password proves a sixteenth of them at most (32 at least), so that nobody fills the table."
        ),
        .integer(
            "connections-per-source", in: 1...1_000_000, \.connectionsPerSource,
            "TCP connections from one IPv4 address or IPv6 /64 that have not proved themselves."),
        .integer(
            "registers-per-source", in: 0...1_000_000, \.registersPerSource,
            "REGISTERs a second from one IPv4 address or IPv6 /64 that show a right password, and a quarter as many that do not; "
                + "beyond it the answer is 503 with Retry-After. Ten seconds' worth may come at once. Trusted peers have no such limit. 0 is no limit. "
                + "Raise it when more than some thousand phones share one address."),
        .integer(
            "handshakes-per-source", in: 0...1_000_000, \.handshakesPerSource,
            "TLS handshakes a second from one IPv4 address or IPv6 /64 whose connections then show a right password or a trusted "
                + "certificate, and a quarter as many that do not; beyond it connections are closed at once. Ten seconds' worth may come together. It holds for "
                + "SIP, WebSocket and the HTTP API. Trusted addresses have no such limit; behind load-balancers the address that they name counts. 0 is no limit."
        ),
        .duration(
            "first-request", in: .seconds(1) ... .seconds(3600), \.firstRequest,
            "How long after its start a TCP connection may be without a whole request, whatever drips in meanwhile."),
        .duration(
            "authentication", in: .seconds(1) ... .seconds(3600), \.authentication,
            "How long after its start a TCP connection may go without proving itself, where auth is on."),
        .duration(
            "output-timeout", in: .seconds(1) ... .seconds(3600), \.outputTimeout,
            "How long the peer of a TCP connection may take none of what waits for it."),
        .integer(
            "memory", in: 0...1_099_511_627_776, \.memory,
            "Bytes of memory that the process may have; with four fifths of them it takes no more connections, but those of trusted peers. 0: what its control group may have (MemoryMax= in the unit), or no limit."
        ).taken(.atRestart),
        .duration(
            "queueing", in: .zero ... .seconds(10), \.queueing,
            "How long requests may wait until they are looked at and written to the disk. While it is longer, new work gets 503 with Retry-After: first REGISTERs of users without a contact, then requests over HTTP, then other REGISTERs, then INVITEs; calls under way are served. 0s: nothing is refused."
        ),
        .integer(
            "wrong-logins-per-source", in: 0...1_000_000, \.wrongLoginsPerSource,
            "Wrong passwords, keys and ApiTokens a minute from one IPv4 address or IPv6 /64, over SIP and HTTP together; beyond it passwords and ApiTokens from there are not looked at, and the answer is 503 (HTTP: 429) with Retry-After. Trusted peers have no such limit. 0 is no limit. Raise it when many phones share one address, or a proxy stands before the HTTP API."
        ).taken(.atRestart),
        .integer(
            "wrong-logins-per-user", in: 0...1_000_000, \.wrongLoginsPerUser,
            "Wrong passwords a minute for one user, whoever shows them; beyond it the user's password is not looked at, but from where the user has shown it before. 0 is no limit. More than wrong-logins-per-source, so that one address cannot lock a user out of other places."
        ).taken(.atRestart),
    ]
}
