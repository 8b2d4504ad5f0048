import Bytes

/// Decides which hosts may get web pushes: the listed push services, and the push servers that phones choose (T46).
struct WebPushHosts: Sendable {
    enum Verdict: Hashable {
        /// The host is in the list `hosts`, so the operator trusts the host.
        case listed(WebPushToken)
        /// A phone has chosen the host. If `isPrivate` is true, the operator has listed the host in `private-hosts`.
        case chosen(WebPushToken, isPrivate: Bool)
        case refused(TokenProblem)
    }

    private let listed: [WebPushHost]
    private let ownNetwork: [WebPushHost]
    private let allowsAny: Bool
    private let ports: Set<UInt16>

    /// The maximum length of a user-chosen URL in bytes: UnifiedPush allows no longer endpoint.
    private static let longestEndpoint = 1000

    init(_ settings: WebPushSettings) {
        listed = settings.hosts
        ownNetwork = settings.privateHosts
        allowsAny = settings.anyHost
        ports = Set([WebPushHost.standardPort] + settings.anyHostPorts.compactMap { UInt16(exactly: $0) })
    }

    func judge(_ token: PushToken) -> Verdict {
        guard let subscription = WebPushToken(token) else { return .refused(.webPushResource) }
        let (host, port) = (subscription.host, subscription.port)
        if listed.contains(where: { $0.allows(host, port) }) { return .listed(subscription) }
        let isPrivate = ownNetwork.contains { $0.allows(host, port) }
        guard isPrivate || allowsAny else { return .refused(.webPushResource) }
        guard isPrivate || ports.contains(port) && Self.isPublicName(host),
            token.prid.count <= Self.longestEndpoint
        else { return .refused(.webPushHost) }
        // UnifiedPush allows no push without payload, and only encrypted payloads.
        guard subscription.keys != nil else { return .refused(.webPushKeys) }
        return .chosen(subscription, isPrivate: isPrivate)
    }

    /// Whether a valid host name can be the name of a public host: two labels at least. A name that ends in a number is
    /// refused, because many programs read it as an address in decimal, octal or hexadecimal.
    private static func isPublicName(_ host: String) -> Bool {
        let labels = host.utf8.split(separator: UInt8(ascii: "."))
        guard labels.count >= 2, let last = labels.last else { return false }
        return !last.starts(with: "0x".utf8) && !last.allSatisfy { (0x30...0x39).contains($0) }
    }
}
