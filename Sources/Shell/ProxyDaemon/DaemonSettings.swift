package import Addressing
import Bytes
package import HTTPServices
import ProxyCore
package import ProxyPolicy
package import ProxyRuntime
package import PushDelivery
package import Registration
import SIPGrammar
package import Settings
package import UserSources

/// One address to listen on, written in the settings as `udp:0.0.0.0:5060` or `tcp:[::]:5060`.
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
        guard parts.count == 2, let transport = Transport(parameter: parts[0]),
            let endpoint = Endpoint(parts[1])
        else { throw SettingComplaint("expected udp, tcp, tls, ws or wss, then :ADDRESS:PORT, IPv6 in brackets") }
        return ListenAddress(transport: transport, endpoint: endpoint)
    } print: {
        "\($0.transport.parameterName):\($0.endpoint)"
    }
}

/// How phones must prove their identity.
package enum AuthenticationMode: String, Hashable, Sendable, CaseIterable {
    /// Phones authenticate by digest (RFC 7616) for REGISTER and for calls.
    case digest
    /// Phones need no authentication, which is meant for closed networks and laboratories.
    case off
}

/// All settings of the configuration file.
package struct DaemonSettings: SettingsGroup {
    package var domains: [String] = []
    package var listen = [
        ListenAddress(transport: .udp, endpoint: Endpoint(.anyV4, 5060)),
        ListenAddress(transport: .tcp, endpoint: Endpoint(.anyV4, 5060)),
    ]
    package var tls = TLSSettings()
    package var webSocket = WebSocketSettings()
    package var loadBalancers: [AddressBlock] = []
    package var advertise: String?
    package var store = "/var/lib/sippushd/sippushd.db"
    package var postgreSQL = PostgreSQLSettings()
    package var cluster = ClusterSettings()
    package var calls: String?
    package var control = "/run/sippushd/control.sock"
    package var auth = AuthenticationMode.digest
    package var trusted: [TrustedPeer] = []
    package var stripHeaders = ["X-*"]
    package var upstream: NextHop?
    package var upstreamHosts: [String]?
    package var upstreamCheck = UpstreamCheckSettings()
    package var tenants: [String: TenantSettings] = [:]
    package var registerUpstream: [String: UpstreamRegistrationSettings] = [:]
    package var call = CallSettings()
    package var registrar = RegistrarSettings()
    package var digest = DigestSettings()
    package var users = UserSettings()
    package var bearer = BearerSettings()
    package var messages = MessageSettings()
    package var bucket = BucketSettings()
    package var missedCalls = MissedCallSettings()
    package var push = PushSettings()
    package var api = APISettings()
    package var admin = AdminSettings()
    package var log = LogSettings()
    package var hep = HEPSettings()
    package var otlp = OTLPSettings()
    package var events = EventSettings()
    package var limits = LimitSettings()
    package var shutdown = ShutdownSettings()

    package init() {}

    package static let schema: [Setting<DaemonSettings>] = [
        .list(
            "domains", \.domains, example: "[example.net]",
            "The domains of the users who register here. The daemon treats a request to its own IP address as a request to the first domain in the list."
        ).required(),
        .list(
            "listen", of: ListenAddress.settingType, \.listen,
            "The SIP listeners: a list of transport:address:port with udp, tcp, tls, ws or wss (WebSocket). Write IPv6 addresses in brackets, such as tcp:[::]:5060."
        ),
        .list(
            "load-balancers", of: .addressBlock, \.loadBalancers, example: "[192.0.2.20]",
            "Load balancers in front of the tcp, tls, ws and wss listeners, as CIDR blocks. Each connection from a load balancer must begin with a PROXY header (version 1 or 2). The daemon treats the connection as a connection from the peer named in the PROXY header."
        ),
        .string(
            "advertise", \.advertise, example: "sip.example.net",
            "The host name or address under which phones and PBXs reach the daemon. The daemon writes this name or address into `Via` and `Record-Route`. By default, the daemon writes the listener's address, or this machine's first address if the listener has 0.0.0.0 or [::]. Set `advertise` if the daemon is behind a NAT, or if the address of its machine can change."
        ),
        .path(
            "store", \.store,
            "The SQLite file with contacts, users, missed calls, messages and keys. With postgresql, the file does not exist, but the call journal and the log of events are beside its path."
        ),
        .group(
            "postgresql", \.postgreSQL,
            "PostgreSQL as the store, in place of the SQLite file; docs/PostgreSQL.md."),
        .group(
            "cluster", \.cluster,
            "This daemon as one of several daemons (nodes) on one database. The nodes speak SIP over TLS to one another."
        ),
        .path(
            "calls", \.calls, example: "/run/sippushd/calls",
            "The folder of the call journal. After a restart, the daemon reads the active calls from the journal and continues them. By default, the journal is in a folder beside the store. The daemon writes the journal during calls, so put the folder in memory (tmpfs) if the disk is slow. The folder must survive a restart of the daemon: for /run/sippushd, set RuntimeDirectoryPreserve=yes in the systemd unit."
        ),
        .path("control", \.control, "The Unix socket over which commands reach a running daemon."),
        .choice(
            "auth", \.auth,
            "How phones authenticate. With `digest`, phones authenticate by a password (RFC 7616). With `off`, phones need no password. Use `off` only in closed networks."
        ).taken(
            .atOnce),
        .list(
            "trusted", of: TrustedPeer.settingType, \.trusted, example: "[192.0.2.10, 198.51.100.0/24]",
            "The trusted peers, which are the PBX and the edge proxies. Each entry is a CIDR block, address:port for a PBX that shares its address with phones, or a name in a peer's certificate (`tls.client-ca-file`). The daemon accepts INVITEs of trusted peers without a password. Over WebSocket, the daemon trusts a peer only by a name in the peer's certificate."
        ).taken(.atOnce),
        .list(
            "strip-headers", of: .headerPattern, \.stripHeaders,
            "The header fields that the daemon removes from requests and responses of peers that are not trusted: names, or prefixes with * at the end. The daemon always removes identity headers (docs/Trust.md, T9.7). Add to the list each header field by which a phone could control your PBX; the daemon then removes the field from requests of phones."
        ).taken(.atOnce),
        .value(
            "upstream", \.upstream, NextHop.settingType, example: "sip:pbx.example.net:5060",
            "The destination of calls from phones: a SIP URI, with `;transport=tcp` for TCP and `;transport=tls` for TLS. If `upstream` is not set, the daemon itself delivers calls between its users."
        ).taken(.atOnce),
        .value(
            "upstream-hosts", \.upstreamHosts, .list(of: .string), example: "[pbx.example.net, 192.0.2.10]",
            "Host names and addresses that stand for the first domain. A call from a phone to bob at such a host becomes a call to bob at the first domain. List the hosts that the PBX writes into `From`, because a phone that calls back dials the host in `From`. By default, the list has the host of `upstream` and the IP addresses of that host. With `[]`, only the name of the first domain itself stands for the first domain."
        ).taken(.atOnce),
        .group("upstream-check", \.upstreamCheck, "How the daemon checks whether the upstream answers.").taken(.atOnce),
        .named(
            "tenants", \.tenants, exampleName: "example.net", example: .example,
            "Domains that are separate from all other domains. A tenant's users, trusted peers, PBX, push apps and limits do not count for other domains, and calls from one tenant do not reach users of another. The name of each group of settings is an entry of the setting `domains`. See docs/Tenants.md."
        ).taken(.atOnce),
        .named(
            "register-upstream", \.registerUpstream, exampleName: "example.net", example: .example,
            "Domains whose users the daemon keeps registered at a PBX, also while their phones sleep. The settings of the PBX need no change. The daemon needs each user's password. Set `digest.realm` to the realm of the PBX. The name of each group of settings is an entry of the setting `domains`."
        ).taken(.atOnce),
        .group("tls", \.tls, "TLS for SIP.").taken(.atOnce),
        .group("websocket", \.webSocket, "SIP over WebSocket, for browsers."),
        .group("call", \.call, "Calls.").taken(.atOnce),
        .group("registrar", \.registrar, "Registrations."),
        .group("digest", \.digest, "Digest authentication."),
        .group(
            "users", \.users,
            "Sources of users besides the daemon's own store: databases and HTTP servers that have passwords or hashes of users. See docs/Users.md."
        ),
        .group(
            "bearer", \.bearer,
            "Bearer tokens of a login server, with which phones can register instead of a password; docs/Bearer.md."),
        .group(
            "messages", \.messages,
            "How the daemon delivers messages and other requests outside calls to sleeping phones."
        ).taken(
            .atOnce),
        .group("bucket", \.bucket, "The missed-call bucket stores missed calls until the phone registers."),
        .group("missed-calls", \.missedCalls, "How the daemon notifies phones of missed calls.").taken(.atOnce),
        .group("push", \.push, "Push providers."),
        .group("api", \.api, "The HTTP API for application servers; docs/HTTP-API.md."),
        .group("admin", \.admin, "The HTTP API for operators; docs/HTTP-API.md, Admin API."),
        .group("log", \.log, "The log on standard error."),
        .group("limits", \.limits, "Limits against overload of the daemon, and against attacks.").taken(.atOnce),
        .group("hep", \.hep, "Copies of SIP messages and pushes for a HEP collector; docs/Traces.md.").taken(.atOnce),
        .group("otlp", \.otlp, "Spans of calls for an OpenTelemetry collector; docs/Traces.md.").taken(.atOnce),
        .group("events", \.events, "Events for a receiver, such as missed calls; docs/Events.md.").taken(.atOnce),
        .group("shutdown", \.shutdown, "How the daemon stops; docs/Operations.md, Restarts and upgrades.").taken(
            .atOnce),
    ]

    package func complaints() -> [SettingComplaint] {
        var found: [SettingComplaint] = []
        if !domains.contains(where: { !$0.isEmpty }) {
            found.append(SettingComplaint("at least one domain is needed", key: "domains"))
        } else if let domain = domains.first(where: { !Self.isDomain($0) }) {
            found.append(SettingComplaint("expected a domain such as example.net, found \"\(domain)\"", key: "domains"))
        }
        if otlp.url != nil, push.timeline.maximumRecords == 0 {
            found.append(
                SettingComplaint(
                    "spans are made from the timeline's records, so push.timeline.max-records must not be 0",
                    key: "otlp"))
        }
        if tls.clientCAFile == nil, let name = trusted.compactMap(\.provedName).first {
            found.append(
                SettingComplaint(
                    "\(name) is the name in a certificate, and certificates of peers need tls.client-ca-file: set it, or write the PBX's address",
                    key: "trusted"))
        }
        if tls.certFile == nil, tls.certificates.isEmpty, listen.contains(where: \.transport.isSecure) {
            found.append(
                SettingComplaint("expected tls.cert-file and tls.key-file for a tls or wss address", key: "listen"))
        }
        if webSocket.apiPath != nil, api.listen.isEmpty {
            found.append(SettingComplaint("expected an address under api.listen for api-path", key: "websocket"))
        }
        if let offered = users.rules.algorithms, !digest.algorithms.contains(where: offered.contains) {
            let names = digest.algorithms.map(\.rawValue).joined(separator: ", ")
            found.append(
                SettingComplaint("expected algorithms that digest.algorithms has as well: \(names)", key: "users"))
        }
        found += tenantComplaints
        found += clusterComplaints
        for (domain, group) in registerUpstream.sorted(by: { $0.key < $1.key }) {
            if !domains.contains(where: { $0.lowercased() == domain.lowercased() }) {
                found.append(
                    SettingComplaint("expected one of domains, found \"\(domain)\"", key: "register-upstream"))
            }
            if let (_, place) = group.upstream?.numeric, !peers(of: domain).contains(where: { $0.matches(place) }) {
                found.append(
                    SettingComplaint(
                        "expected \(place.address) under trusted, so that calls of this PBX reach the users",
                        key: "register-upstream"))
            }
        }
        if !registerUpstream.isEmpty, auth == .off {
            found.append(
                SettingComplaint("expected auth: digest, since the PBX asks for the users' passwords", key: "auth"))
        }
        for (name, issuer) in bearer.inOrder {
            let own = domains.map { $0.lowercased() }
            if let other = issuer.domains.first(where: { !own.contains($0.lowercased()) }) {
                found.append(
                    SettingComplaint("\(name) names the domain \(other), which domains has not", key: "bearer"))
            }
        }
        if listen.isEmpty { found.append(SettingComplaint("at least one address is needed", key: "listen")) }
        if upstream == nil, call.noWake.forwards {
            found.append(SettingComplaint("expected upstream, through which call.no-wake forwards", key: "upstream"))
        }
        // A host name without a transport needs no check, because DNS chooses among the daemon's transports.
        if let transport = upstream.flatMap({ $0.numeric?.0 ?? ($0.isSecure ? .tls : $0.transport) }),
            !listen.contains(where: { $0.transport == transport })
        {
            let name = transport.parameterName
            found.append(SettingComplaint("expected a \(name) address under listen to reach it from", key: "upstream"))
        }
        if admin.listen.contains(where: { $0.port != 0 && api.listen.contains($0) }) {
            found.append(SettingComplaint("expected addresses that api.listen does not have", key: "admin"))
        }
        return found
    }

    /// Whether the text can be a domain: a host name, or an address as URIs write it.
    private static func isDomain(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= 253
            && text.utf8.allSatisfy {
                $0 > 0x20 && $0 < 0x7f && !"@;,<>\"?/\\".utf8.contains($0)
            }
    }
}

extension SettingType<String> {
    /// The type of a setting with a header name, or with a prefix of header names that ends with `*`.
    static let headerPattern = SettingType<String>.checked("header name") { text throws(SettingComplaint) in
        if let complaint = HeaderFilter.complaint(about: text) { throw SettingComplaint(complaint) }
    }
}
