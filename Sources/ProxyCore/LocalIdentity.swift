package import Addressing
import Registration
package import SIPGrammar

/// One of our listeners as others see it.
package struct Listener: Sendable {
    /// Its number in the configuration's order, as flows carry it.
    package let number: UInt16
    package let transport: Transport
    package let bound: Endpoint
    /// `host:port` for Via and Record-Route: the advertised name, or the bound address.
    package let sentBy: ByteString

    package init(number: UInt16, transport: Transport, bound: Endpoint, sentBy: ByteString) {
        self.number = number
        self.transport = transport
        self.bound = bound
        self.sentBy = sentBy
    }
}

/// What is us: our domains, and the hosts and ports a Route or Request-URI may name us by.
package struct LocalIdentity: Sendable {
    package let listeners: [Listener]
    /// Lower case; the first is the home of users who are addressed by our bare address.
    package let domains: [ByteString]
    private let hosts: Set<ByteString>
    private let sentBys: Set<ByteString>

    package init(listeners: [Listener], domains: [ByteString]) {
        self.listeners = listeners
        self.domains = domains.map { $0.lowercased() }
        var sentBys = Set<ByteString>()
        var hosts = Set<ByteString>()
        for listener in listeners {
            sentBys.insert(listener.sentBy.lowercased())
            sentBys.insert(ByteString(listener.bound.description))
            hosts.insert(Self.host(of: listener.sentBy).lowercased())
            hosts.insert(ByteString(listener.bound.address.uriHost))
        }
        self.sentBys = sentBys
        self.hosts = hosts
    }

    private static func host(of sentBy: ByteString) -> ByteString {
        guard let colon = sentBy.lastIndex(of: UInt8(ascii: ":")) else { return sentBy }
        return sentBy[0..<colon]
    }

    package func isDomain(_ host: ByteString) -> Bool {
        let lower = host.lowercased()
        return domains.contains(lower)
    }

    /// The URI's host and port are those of one of our listeners, or its host is one of our domains without a port.
    package func isUs(_ uri: SIPURI) -> Bool {
        if uri.port == nil, isDomain(uri.host) { return true }
        var key = uri.host.lowercased().array
        key.append(UInt8(ascii: ":"))
        key.append(decimal: uri.port ?? (uri.scheme == .sips ? 5061 : 5060))
        return sentBys.contains(ByteString(key))
    }

    /// The domain part of the AOR that a URI names: its host when that is our domain, the first domain when it is our
    /// address, `nil` when it is somebody else's.
    package func home(of uri: SIPURI) -> ByteString? {
        let host = uri.host.lowercased()
        if domains.contains(host) { return host }
        return hosts.contains(host) ? domains.first : nil
    }

    /// The listener to send from: the wished one when it has the transport and address family, else the first that has.
    package func listener(for transport: Transport, to remote: IPAddress, preferring wished: UInt16?) -> Listener? {
        let fitting = { (listener: Listener) in
            listener.transport == transport && listener.bound.address.isV4 == remote.isV4
        }
        if let wished, let listener = listener(wished), fitting(listener) { return listener }
        return listeners.first(where: fitting)
    }

    package func listener(_ number: UInt16) -> Listener? {
        Int(number) < listeners.count ? listeners[Int(number)] : nil
    }
}

extension AddressOfRecord {
    /// The AOR a URI names in one of our domains; `nil` when it names no user.
    init?(_ uri: SIPURI, home: ByteString) {
        guard let user = uri.user, !user.isEmpty else { return nil }
        self.init(user: user.percentDecoded(), host: home)
    }

    /// For P-Asserted-Identity (RFC 3325 section 9.1).
    var assertedIdentity: ByteString { ByteString("<sip:\(self)>") }
}
