package import Addressing
package import Bytes
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

/// What counts as ourselves: our domains, and the hosts and ports by which a Route or Request-URI may name us.
package struct LocalIdentity: Sendable {
    package let listeners: [Listener]
    /// Lower case; the first is the home of users who are addressed by our bare address.
    package let domains: [ByteString]
    /// Realms that phones show us passwords for; lower case.
    private(set) var realms: [ByteString]
    private let hosts: Set<ByteString>
    /// Lower case. There are a few of them, and comparing costs less than a hash.
    private let sentBys: [(host: ByteString, port: UInt16)]
    /// Where our listeners are reached: what is sent there comes back to us.
    private let ownPlaces: [(transport: Transport, port: UInt16, address: IPAddress)]

    /// The same, whose users show their passwords in that realm; in the realms of their domains without one.
    func asking(inRealm realm: String?) -> LocalIdentity {
        var identity = self
        if let realm { identity.realms = [ByteString(realm).lowercased()] }
        return identity
    }

    /// - Parameters:
    ///   - listeners: where SIP is spoken.
    ///   - domains: whose users register here.
    ///   - machine: this machine's own addresses. A listener that is bound to all of them is reached at each.
    ///   - others: what else of this program listens for TCP connections, and speaks no SIP.
    package init(
        listeners: [Listener], domains: [ByteString], machine: [IPAddress] = [], others: [Endpoint] = []
    ) {
        self.listeners = listeners
        ownPlaces =
            listeners.flatMap { Self.places(of: $0, machine: machine) }
            + others.flatMap { Self.places(of: .tcp, $0, machine: machine) }
        self.domains = domains.map { $0.lowercased() }
        realms = self.domains
        var sentBys: [(host: ByteString, port: UInt16)] = []
        var hosts = Set<ByteString>()
        for listener in listeners {
            for place in [listener.sentBy.lowercased(), ByteString(listener.bound.description)] {
                let host = Self.host(of: place)
                guard host.count < place.count, let port = place[host.count + 1..<place.count].decimal(as: UInt16.self),
                    !sentBys.contains(where: { $0 == (host, port) })
                else { continue }
                sentBys.append((host, port))
            }
            hosts.insert(Self.host(of: listener.sentBy).lowercased())
            hosts.insert(ByteString(listener.bound.address.uriHost))
        }
        self.sentBys = sentBys
        self.hosts = hosts
    }

    private static func places(
        of listener: Listener, machine: [IPAddress]
    ) -> [(transport: Transport, port: UInt16, address: IPAddress)] {
        var places = places(of: listener.transport, listener.bound, machine: machine)
        // What others reach it by, behind a NAT for example.
        if let advertised = Endpoint(listener.sentBy.string) {
            places.append((listener.transport, advertised.port, advertised.address))
        }
        return places
    }

    private static func places(
        of transport: Transport, _ bound: Endpoint, machine: [IPAddress]
    ) -> [(transport: Transport, port: UInt16, address: IPAddress)] {
        [(transport, bound.port, bound.address)]
            + (bound.address.isUnspecified ? machine.map { (transport, bound.port, $0) } : [])
    }

    /// Whether requests can be sent over protected hops.
    var hasTLS: Bool { listeners.contains { $0.transport == .tls } }

    /// Whether a message sent there would come back to one of our listeners (T9.4).
    package func isOurs(_ transport: Transport, _ endpoint: Endpoint) -> Bool {
        // A stream to the port of another transport is refused there, but ends at us all the same.
        for place in ownPlaces
        where place.port == endpoint.port && place.transport.isReliable == transport.isReliable {
            if place.address == endpoint.address { return true }
            // A listener on all addresses is also reached through all of loopback, and through the address that means "here".
            if place.address.isUnspecified, place.address.isV4 == endpoint.address.isV4,
                endpoint.address.isLoopback || endpoint.address.isUnspecified
            {
                return true
            }
            // The kernel takes "here" for loopback.
            if endpoint.address.isUnspecified, place.address.isLoopback { return true }
        }
        return false
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
        let port = uri.port ?? (uri.scheme == .sips ? 5061 : 5060)
        for place in sentBys where place.port == port && place.host.equalsIgnoringCase(uri.host) { return true }
        return false
    }

    /// The domain part of the AOR that a URI names: its host when that is our domain, the first domain when it is our
    /// address, `nil` when it is somebody else's.
    package func home(of uri: SIPURI) -> ByteString? {
        let host = uri.host.lowercased()
        if domains.contains(host) { return host }
        return hosts.contains(host) ? domains.first : nil
    }

    /// The listener whose address a request bears that is sent to a place, and which it leaves from: of those with the
    /// transport and address family the wished one, else one of the same address, else the first. One on loopback reaches
    /// this machine alone.
    package func listener(for transport: Transport, to remote: IPAddress, preferring wished: UInt16?) -> Listener? {
        let speaking = { (listener: Listener) in
            listener.transport == transport && !transport.isWebSocket && listener.bound.address.isV4 == remote.isV4
        }
        let fitting = { (listener: Listener) in
            speaking(listener) && (remote.isLoopback || !listener.bound.address.isLoopback)
        }
        let preferred = wished.flatMap { listener($0) }
        if let preferred, fitting(preferred) { return preferred }
        return listeners.first { fitting($0) && $0.bound.address == preferred?.bound.address }
            ?? listeners.first(where: fitting) ?? listeners.first(where: speaking)
    }

    /// The listener that a flow uses; another that can take its place when the settings have changed since.
    package func listener(for flow: Flow) -> Listener? {
        if let listener = listener(flow.listener), listener.transport == flow.transport { return listener }
        return listener(for: flow.transport, to: flow.remote.address, preferring: flow.listener)
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
