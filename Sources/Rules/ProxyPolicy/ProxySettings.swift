package import Addressing
package import Bytes
package import PushDelivery
package import Registration
package import SIPGrammar
package import Settings

/// A peer that the daemon trusts, such as a PBX. The daemon does not challenge the peer's INVITEs.
package enum TrustedPeer: Hashable, Sendable {
    case block(AddressBlock)
    /// A peer with one address and one port, such as a PBX that shares its address with phones.
    case endpoint(Endpoint)
    /// A peer whose certificate proves the given host name, which is in lower case.
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

    /// Whether the text is a valid host name.
    ///
    /// The last label must end with a letter, because any other text is probably a mistyped address.
    private static func isName(_ text: String) -> Bool {
        text.utf8.count <= 253
            && text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { label in
                (1...63).contains(label.utf8.count) && label.utf8.allSatisfy(\.isNameByte)
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

    /// The host name that the peer's certificate must prove; `nil` for a peer that is trusted by its address.
    package var provedName: String? { if case .name(let name) = self { name } else { nil } }

    /// Whether the peer is trusted on a single port of the address, and not on other ports.
    package func isOnePort(of address: IPAddress) -> Bool {
        if case .endpoint(let endpoint) = self { endpoint.address == address } else { false }
    }

    package func matches(_ source: Endpoint) -> Bool {
        switch self {
        case .block(let block): block.contains(source.address)
        case .endpoint(let endpoint): endpoint == source
        case .name: false
        }
    }

    package func matches(name: String) -> Bool { self == .name(name) }
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

/// The settings that the rules of the proxy need.
package struct ProxySettings: Sendable {
    package var domains: [ByteString] = []
    /// All peers that are trusted for any domain.
    package var trusted: [TrustedPeer] = []
    /// The domains that have a group under `tenants`.
    package var tenants = Tenants()
    /// The header fields that the daemon removes from messages of untrusted peers.
    package var stripped = HeaderFilter(names: ["X-*"])
    /// The destination of calls from phones; with `nil`, phones call each other directly.
    package var upstream: NextHop?
    package var upstreamHosts = UpstreamHosts.ofUpstream
    /// The settings of the checks whether the upstream answers.
    package var upstreamCheck = UpstreamCheckSettings.off
    /// The domains, in lower case, whose users the daemon keeps registered at a PBX.
    package var upstreamRegistrations: [ByteString: UpstreamRegistrationSettings] = [:]
    /// This daemon as a node of a cluster; `nil` if no other daemon uses the store.
    package var node: OwnNode?
    /// Whether phones must authenticate by digest.
    package var authenticates = true
    package var digest = DigestSettings()
    /// The rules for the sources of users outside the store.
    package var users = UserRules()
    /// The rules by which the daemon accepts bearer tokens.
    package var bearer = BearerRules()
    package var registrar = RegistrarSettings()
    package var call = CallSettings()
    package var callLogging = CallLogging.failed
    package var limits = LimitSettings()
    package var bucket = BucketSettings()
    package var missedCalls = MissedCallSettings()
    package var messages = MessageSettings()
    /// The push providers for which the settings have credentials and an endpoint.
    package var configuredProviders: Set<PushProvider> = []
    /// The push apps with the settings and limits of their pushes. They are read once, at the start of the program.
    package var dispatch = DispatchSetup(PushDirectory(PushSettings()))
    /// The maximum number of notifications per minute to one device; zero for no limit.
    package var notificationsPerDevice = 10
    /// How long after its creation a push with a list of missed calls can still be sent.
    package var missedCallsLife: Duration = .seconds(120)
    /// The maximum number of open timeline records; zero switches the timeline off.
    package var timelineLimit = 200_000
    /// The maximum number (`recordsKept`) and the maximum age of stored timeline records.
    package var recordsKept = 1_000_000
    package var recordsAge: Duration = .seconds(604_800)
    /// The maximum number (`unreadLimit`) and the maximum age of counted unread pushes of all devices.
    package var unreadLimit = 1_000_000
    package var unreadAge: Duration = .seconds(604_800)

    package init() {}

    /// The realms of all domains.
    package var realms: Realms { tenants.realms(common: digest.realm) }
}

extension [TrustedPeer] {
    /// Whether only a single port of an address is trusted. Phones may use the other ports of the address.
    package func haveOnePort(of address: IPAddress) -> Bool { contains { $0.isOnePort(of: address) } }
}
