package import Addressing
package import Bytes
package import PushDelivery
package import Registration
package import SIPGrammar
package import Settings

/// A peer that belongs to the PBX: its INVITEs reach users without a challenge.
package enum TrustedPeer: Hashable, Sendable {
    case block(AddressBlock)
    /// One address with one port, for a PBX that shares its address with phones.
    case endpoint(Endpoint)
    /// A peer with a certificate for that name, which is in lower case.
    case name(String)

    package init?(_ text: String) {
        if let block = AddressBlock(text) {
            self = .block(block)
        } else if let endpoint = Endpoint(text) {
            self = .endpoint(endpoint)
        } else if Self.isName(text) {
            self = .name(text.lowercased())
        } else {
            return nil
        }
    }

    /// A host name whose last label ends with a letter: any other is a mistyped address.
    private static func isName(_ text: String) -> Bool {
        text.utf8.count <= 253
            && text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { label in
                (1...63).contains(label.utf8.count)
                    && label.utf8.allSatisfy { $0 == 45 || $0 == 95 || 48...57 ~= $0 || 65...90 ~= $0 & 0xdf }
            } && text.contains(".") && text.last?.isLetter == true
    }

    package static let settingType = SettingType<TrustedPeer>.parsed("address block or name") {
        text throws(SettingComplaint) in
        guard let peer = TrustedPeer(text) else {
            throw SettingComplaint(
                "expected an address, a CIDR block such as 192.0.2.0/24, address:port, or the name in a certificate")
        }
        return peer
    } print: { peer in
        switch peer {
        case .block(let block): block.description
        case .endpoint(let endpoint): endpoint.description
        case .name(let name): name
        }
    }

    /// The name that a certificate must prove; `nil` for an address.
    package var provedName: String? { if case .name(let name) = self { name } else { nil } }

    /// Whether it names a single port of that address, so that the other ports are not trusted.
    func isOnePort(of address: IPAddress) -> Bool {
        if case .endpoint(let endpoint) = self { endpoint.address == address } else { false }
    }

    package func matches(_ source: Endpoint) -> Bool {
        switch self {
        case .block(let block): block.contains(source.address)
        case .endpoint(let endpoint): endpoint == source
        case .name: false
        }
    }

    func matches(name: String) -> Bool { self == .name(name) }
}

extension SettingType<AddressBlock> {
    package static let addressBlock = SettingType<AddressBlock>.parsed("address block") {
        text throws(SettingComplaint) in
        guard let block = AddressBlock(text) else { throw SettingComplaint("expected ADDRESS or ADDRESS/LENGTH") }
        return block
    } print: {
        $0.description
    }
}

/// The part of the configuration that the engine needs.
package struct ProxySettings: Sendable {
    package var domains: [ByteString] = []
    package var trusted: [TrustedPeer] = []
    /// Header fields that are removed if they come from an untrusted peer.
    package var stripped = HeaderFilter(names: ["X-*"])
    /// The destination of calls from phones; `nil` lets phones call each other directly.
    package var upstream: NextHop?
    package var upstreamHosts = UpstreamHosts.ofUpstream
    /// How it is checked.
    package var upstreamCheck = UpstreamCheckSettings.off
    /// Digest authentication of phones.
    package var authenticates = true
    package var digest = DigestSettings()
    package var registrar = RegistrarSettings()
    package var call = CallSettings()
    package var limits = LimitSettings()
    package var bucket = BucketSettings()
    package var missedCalls = MissedCallSettings()
    package var messages = MessageSettings()
    /// Providers that have credentials and an endpoint.
    package var configuredProviders: Set<PushProvider> = []
    /// What pushes are sent with. It does not change while the program runs.
    package var dispatch = DispatchSetup(PushDirectory(PushSettings()))
    /// Notifications in a minute to one device. Zero: no limit.
    package var notificationsPerDevice = 10
    /// How long a missed-calls push is worth sending.
    package var missedCallsLife: Duration = .seconds(120)
    /// The maximum number of open records of the timeline. Zero: none is kept.
    package var timelineLimit = 200_000
    /// How many records of the timeline are kept, and for how long.
    package var recordsKept = 1_000_000
    package var recordsAge: Duration = .seconds(604_800)
    /// How many unread pushes of all devices are counted, and for how long.
    package var unreadLimit = 1_000_000
    package var unreadAge: Duration = .seconds(604_800)

    package init() {}
}
