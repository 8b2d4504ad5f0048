package import Addressing
package import Bytes
package import PushDelivery
package import Registration
package import SIPGrammar
package import Settings

/// Which peers are the PBX's: their INVITEs go to our users unchallenged.
package enum TrustedPeer: Hashable, Sendable {
    case block(AddressBlock)
    /// One address with one port, for a PBX that shares its address with phones.
    case endpoint(Endpoint)

    package init?(_ text: String) {
        if let block = AddressBlock(text) {
            self = .block(block)
        } else if let endpoint = Endpoint(text) {
            self = .endpoint(endpoint)
        } else {
            return nil
        }
    }

    package static let settingType = SettingType<TrustedPeer>.parsed("address block") { text throws(SettingComplaint) in
        guard let peer = TrustedPeer(text) else {
            throw SettingComplaint("expected an address, a CIDR block such as 192.0.2.0/24, or address:port")
        }
        return peer
    } print: { peer in
        switch peer {
        case .block(let block): block.description
        case .endpoint(let endpoint): endpoint.description
        }
    }

    /// It is one port of that address: others of the address are not meant.
    func isOnePort(of address: IPAddress) -> Bool {
        if case .endpoint(let endpoint) = self { endpoint.address == address } else { false }
    }

    package func matches(_ source: Endpoint) -> Bool {
        switch self {
        case .block(let block): block.contains(source.address)
        case .endpoint(let endpoint): endpoint == source
        }
    }
}

/// What the engine needs of the configuration.
package struct ProxySettings: Sendable {
    package var domains: [ByteString] = []
    package var trusted: [TrustedPeer] = []
    /// What is not believed of whoever is not trusted.
    package var stripped = HeaderFilter(names: ["X-*"])
    /// Where calls from phones go; `nil` lets phones call each other directly.
    package var upstream: NextHop?
    /// Digest authentication of phones.
    package var authenticates = true
    package var digest = DigestSettings()
    /// Wrong passwords in a minute from one source, and for one user; 0: no limit (T8).
    package var wrongLoginsPerSource = 10
    package var wrongLoginsPerUser = 30
    package var registrar = RegistrarSettings()
    package var bucket = BucketSettings()
    /// Providers that have credentials and an endpoint.
    package var configuredProviders: Set<PushProvider> = []
    /// The apps that tokens belong to; `nil` where none are set up.
    package var pushApps: PushDirectory?
    /// How long an INVITE waits for a sleeping device (A12).
    package var ringTimeout: Duration = .seconds(30)
    /// A push contact that registered within this time gets the INVITE at once, without a push; zero: never (A9).
    package var skipPushWithin: Duration = .zero
    /// A push contact whose flow showed life within this time gets the INVITE at once, with the push beside it; zero: never.
    package var ringLiveFlowWithin: Duration = .zero
    package var callerIDFormat = CallerIDFormat.ecss10
    /// Timer C (RFC 3261 section 16.6 item 11: more than three minutes).
    package var ringLimit: Duration = .seconds(190)
    /// How long our Record-Route is good for after it was made, or after the dialog's last traffic (T20.5).
    package var dialogLifetime: Duration = .seconds(43_200)
    /// Pushes of calls in a minute to one device, and by one caller who is not trusted; 0: no limit (T11).
    package var pushesPerDevice = 20
    package var pushesPerCaller = 60
    /// Notifications in a minute to one device; 0: no limit.
    package var notificationsPerDevice = 10
    /// How long a missed-calls push is worth sending.
    package var missedCallsLife: Duration = .seconds(120)
    /// Calls and other forks at once; beyond it callers get 503.
    package var maximumCalls = 200_000
    /// Those of one caller, or to one user; 0: a sixteenth of them, and 32 at least.
    package var callsPerAccount = 0
    /// Bytes of all requests that wait for an answer; one account has a sixteenth of them.
    package var heldBytes = 512 << 20
    /// Records of the timeline under way at once; 0 keeps none.
    package var timelineLimit = 200_000
    /// Unread pushes that are counted, of all devices, and for how long.
    package var unreadLimit = 1_000_000
    package var unreadAge: Duration = .seconds(604_800)

    package init() {}
}
