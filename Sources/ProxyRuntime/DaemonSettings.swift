package import Addressing
import Bytes
package import ProxyCore
package import PushDelivery
package import Registration
import SIPGrammar
package import Settings

/// One address to listen on, as written: `udp:0.0.0.0:5060`, `tcp:[::]:5060`.
package struct ListenAddress: Hashable, Sendable {
    package let transport: Transport
    package let endpoint: Endpoint

    package init(transport: Transport, endpoint: Endpoint) {
        self.transport = transport
        self.endpoint = endpoint
    }

    package static let settingType = SettingType<ListenAddress>.parsed(
        "transport:address:port"
    ) { text throws(SettingComplaint) in
        let parts = text.split(separator: ":", maxSplits: 1)
        guard parts.count == 2, let transport = Transport(parameter: parts[0]), transport == .udp || transport == .tcp,
            let endpoint = Endpoint(parts[1])
        else { throw SettingComplaint("expected udp:ADDRESS:PORT or tcp:ADDRESS:PORT, IPv6 in brackets") }
        return ListenAddress(transport: transport, endpoint: endpoint)
    } print: {
        "\($0.transport.parameterName):\($0.endpoint)"
    }
}

/// Whether phones must prove who they are.
package enum AuthenticationMode: String, Hashable, Sendable, CaseIterable {
    /// RFC 7616 digest for REGISTER and for calls from phones.
    case digest
    /// Nobody is asked; for closed networks and laboratories.
    case off
}

/// The whole configuration file.
package struct DaemonSettings: SettingsGroup {
    package var domains: [String] = []
    package var listen = [
        ListenAddress(transport: .udp, endpoint: Endpoint(.anyV4, 5060)),
        ListenAddress(transport: .tcp, endpoint: Endpoint(.anyV4, 5060)),
    ]
    package var advertise: String?
    package var store = "/var/lib/sippushd/sippushd.db"
    package var control = "/run/sippushd/control.sock"
    package var auth = AuthenticationMode.digest
    package var trusted: [TrustedPeer] = []
    package var stripHeaders = ["X-*"]
    package var upstream: NextHop?
    package var call = CallSettings()
    package var registrar = RegistrarSettings()
    package var digest = DigestSettings()
    package var bucket = BucketSettings()
    package var push = PushSettings()
    package var api = APISettings()
    package var admin = AdminSettings()
    package var log = LogSettings()
    package var limits = LimitSettings()

    package init() {}

    package static let schema: [Setting<DaemonSettings>] = [
        .list(
            "domains", \.domains, example: "[example.net]",
            "The domains whose users register here. The first is the home of users addressed by our bare address, and the realm of digest authentication."
        ).required(),
        .list(
            "listen", of: ListenAddress.settingType, \.listen,
            "Where SIP is spoken: a list of transport:address:port. IPv6 addresses stand in brackets."),
        .string(
            "advertise", \.advertise, example: "sip.example.net",
            "The host name or address that others reach this daemon by; it is written into Via and Record-Route. Without it the listener's own address is used, or this machine's first address when it listens on all."
        ),
        .path("store", \.store, "The SQLite file that keeps contacts, users, buckets and provider switches."),
        .path("control", \.control, "The Unix socket that commands talk to a running daemon over."),
        .choice("auth", \.auth, "Whether phones must authenticate: digest, or off for closed networks."),
        .list(
            "trusted", of: TrustedPeer.settingType, \.trusted, example: "[192.0.2.10, 198.51.100.0/24]",
            "The PBX's addresses: CIDR blocks, or address:port when it shares its address with phones. INVITEs from there go to our users without a challenge."
        ),
        .list(
            "strip-headers", of: .headerPattern, \.stripHeaders,
            "Header fields that are removed from requests and responses of whoever is not trusted, beside those of identity (docs/Trust.md, T9.7): names, with * at the end for all that begin so. Put here what the PBX acts on."
        ),
        .value(
            "upstream", \.upstream, NextHop.settingType, example: "sip:pbx.example.net:5060",
            "Where calls from phones go: a SIP URI, with ;transport=tcp for TCP. Without it phones call each other directly."
        ),
        .group("call", \.call, "Calls."),
        .group("registrar", \.registrar, "Registrations."),
        .group("digest", \.digest, "Digest authentication."),
        .group("bucket", \.bucket, "The missed-call bucket."),
        .group("push", \.push, "Push providers."),
        .group("api", \.api, "The HTTP API for application servers; docs/HTTP-API.md."),
        .group("admin", \.admin, "The HTTP API for operators; docs/HTTP-API.md, Admin API."),
        .group("log", \.log, "The log on standard error."),
        .group("limits", \.limits, "Limits that protect the daemon."),
    ]

    package func complaints() -> [SettingComplaint] {
        var found: [SettingComplaint] = []
        if listen.isEmpty { found.append(SettingComplaint("at least one address is needed", key: "listen")) }
        // A name without a transport is asked for what is spoken here.
        if let transport = upstream.flatMap({ $0.numeric?.0 ?? $0.transport }),
            !listen.contains(where: { $0.transport == transport })
        {
            let name = transport.parameterName
            found.append(SettingComplaint("expected a \(name) address under listen to reach it from", key: "upstream"))
        }
        if admin.listen.contains(where: { $0.port != 0 && api.listen.contains($0) }) {
            found.append(SettingComplaint("expected other addresses than those of api.listen", key: "admin"))
        }
        return found
    }
}

/// Calls.
package struct CallSettings: SettingsGroup {
    package var ringTimeout: Duration = .seconds(30)
    package var ringLimit: Duration = .seconds(190)
    package var skipPushWithin: Duration = .zero
    package var ringLiveFlowWithin: Duration = .zero
    package var dialogLifetime: Duration = .seconds(43_200)
    package var callerIDFormat = CallerIDFormat.ecss10
    package var pushesPerDevice = 20
    package var pushesPerCaller = 60

    package init() {}

    package static let schema: [Setting<CallSettings>] = [
        .duration(
            "ring-timeout", in: .seconds(1) ... .seconds(180), \.ringTimeout,
            "How long an INVITE waits for a woken phone before the caller gets 480. The INVITE's own Expires lowers it."
        ),
        .duration(
            "ring-limit", in: .seconds(181) ... .seconds(3600), \.ringLimit,
            "How long a phone may ring without an answer (Timer C, more than three minutes)."),
        .duration(
            "skip-push-within", in: .zero ... .seconds(3600), \.skipPushWithin,
            "A phone that registered within this time gets the INVITE at once, without a push. 0s: always push, since "
                + "the app may sleep although its registration is fresh."),
        .duration(
            "ring-live-flow-within", in: .zero ... .seconds(3600), \.ringLiveFlowWithin,
            "A phone that sent anything on its flow within this time, be it a keep-alive, gets the INVITE at once, with the "
                + "push beside it. 0s: only the push, and the INVITE when the phone registers or its flow shows life."),
        .duration(
            "dialog-lifetime", in: .seconds(1) ... .seconds(2_592_000), \.dialogLifetime,
            "How long requests inside a call pass after it was made. Each one in the second half of that time makes it as "
                + "long again, so it should be longer than twice the session timer of your phones."),
        .choice(
            "caller-id-format", \.callerIDFormat,
            "How pushes write the caller: ecss10 (the URI for a call, the user part in missed calls), uri or user for "
                + "both."),
        .integer(
            "pushes-per-device", in: 0...10_000, \.pushesPerDevice,
            "Pushes for calls that one phone gets in a minute. A call beyond that waits like any other, but wakes nobody. "
                + "0: no limit."),
        .integer(
            "pushes-per-caller", in: 0...1_000_000, \.pushesPerCaller,
            "The same for all calls of one caller who is not trusted: a phone, not the PBX. 0: no limit."),
    ]
}

/// Numbers that every table and queue keeps to.
package struct LimitSettings: SettingsGroup {
    package var calls = 200_000
    package var callsPerAccount = 0
    package var heldBytes = 536_870_912
    package var connections = 50_000
    package var connectionsPerSource = 64
    package var firstRequest: Duration = .seconds(20)
    package var authentication: Duration = .seconds(60)
    package var outputTimeout: Duration = .seconds(20)
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
            "wrong-logins-per-source", in: 0...1_000_000, \.wrongLoginsPerSource,
            "Wrong passwords, keys and ApiTokens a minute from one IPv4 address or IPv6 /64, over SIP and HTTP together; beyond it passwords and ApiTokens from there are not looked at, and the answer is 503 (HTTP: 429) with Retry-After. Trusted peers have no such limit. 0 is no limit. Raise it when many phones share one address, or a proxy stands before the HTTP API."
        ),
        .integer(
            "wrong-logins-per-user", in: 0...1_000_000, \.wrongLoginsPerUser,
            "Wrong passwords a minute for one user, whoever shows them; beyond it the user's password is not looked at, but from where the user has shown it before. 0 is no limit. More than wrong-logins-per-source, so that one address cannot lock a user out of other places."
        ),
    ]
}

extension SettingType<String> {
    /// A header name, or the beginning of some with a `*`.
    static let headerPattern = SettingType<String>.parsed("header name") { text throws(SettingComplaint) in
        if let complaint = HeaderFilter.complaint(about: text) { throw SettingComplaint(complaint) }
        return text
    } print: {
        $0
    }
}
