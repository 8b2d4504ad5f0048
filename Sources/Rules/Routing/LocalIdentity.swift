package import Addressing
package import Bytes
package import Registration
package import SIPGrammar

/// One of the daemon's SIP listeners, with the host and port by which other hosts reach it.
package struct Listener: Sendable {
    /// The listener's index in the settings; the index is part of each ``Flow``.
    package let number: UInt16
    package let transport: Transport
    package let bound: Endpoint
    /// The `host:port` for Via and Record-Route: the listener's advertised name or else its bound address.
    package let sentBy: ByteString
    /// Whether only other nodes of the cluster reach the listener.
    package let isForNodes: Bool

    package init(
        number: UInt16, transport: Transport, bound: Endpoint, sentBy: ByteString, isForNodes: Bool = false
    ) {
        self.isForNodes = isForNodes
        self.number = number
        self.transport = transport
        self.bound = bound
        self.sentBy = sentBy
    }
}

/// The daemon's own names: its domains, and the hosts and ports that mean the daemon in a Route or Request-URI.
package struct LocalIdentity: Sendable {
    package let listeners: [Listener]
    /// The daemon's domains in lower case; a user at the daemon's IP address belongs to the first domain.
    package let domains: [ByteString]
    private let hosts: Set<ByteString>
    /// The hosts and ports that the listeners write into Via; the hosts are in lower case.
    ///
    /// The list of hosts and ports is short, so a linear search is faster than a hash table.
    private let sentBys: [(host: ByteString, port: UInt16)]
    /// All addresses at which the daemon listens; a message to a listening address would come back to the daemon.
    private let ownPlaces: [(transport: Transport, port: UInt16, address: IPAddress)]

    /// Creates the identity from the SIP listeners, the domains and the addresses of this machine.
    ///
    /// A listener on the unspecified address is reached at each address in `machine`. The parameter `others` has the
    /// program's TCP listeners for other protocols, such as the HTTP API. The place of the nodes' listener is no name
    /// of the daemon, because other nodes reach the daemon by Route values of their own.
    package init(
        listeners: [Listener], domains: [ByteString], machine: [IPAddress] = [], others: [Endpoint] = []
    ) {
        self.listeners = listeners
        ownPlaces =
            listeners.flatMap { Self.places(of: $0, machine: machine) }
            + others.flatMap { Self.places(of: .tcp, $0, machine: machine) }
        self.domains = domains.map { $0.lowercased() }
        var sentBys: [(host: ByteString, port: UInt16)] = []
        var hosts = Set<ByteString>()
        for listener in listeners where !listener.isForNodes {
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
        // The advertised address, which differs from the bound address behind a NAT, is the daemon's own address too.
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

    /// Whether a listener speaks TLS, so that `sips:` requests can be sent.
    package var hasTLS: Bool { listeners.contains { $0.transport == .tls && !$0.isForNodes } }

    /// Whether the endpoint is one of the daemon's own listeners, so that a message to it would come back (T9.4).
    package func isOurs(_ transport: Transport, _ endpoint: Endpoint) -> Bool {
        // A TCP connection to the daemon's TLS port would reach the daemon too.
        for place in ownPlaces
        where place.port == endpoint.port && place.transport.isReliable == transport.isReliable {
            if place.address == endpoint.address { return true }
            // A listener on the unspecified address is also reached at every loopback address and at the unspecified
            // address.
            if place.address.isUnspecified, place.address.isV4 == endpoint.address.isV4,
                endpoint.address.isLoopback || endpoint.address.isUnspecified
            {
                return true
            }
            // The unspecified address is treated as a loopback address, because the kernel connects to loopback
            // instead.
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

    /// Whether the URI names this daemon: by a listener's host and port, or by one of the daemon's domains without a
    /// port.
    package func isUs(_ uri: SIPURI) -> Bool {
        if uri.port == nil, isDomain(uri.host) { return true }
        let port = uri.port ?? (uri.scheme == .sips ? 5061 : 5060)
        for place in sentBys where place.port == port && place.host.equalsIgnoringCase(uri.host) { return true }
        return false
    }

    /// The domain of the user in a URI; `nil` if the URI's host is not the daemon's own.
    ///
    /// A user at one of the daemon's addresses belongs to the first domain.
    package func home(of uri: SIPURI) -> ByteString? {
        let host = uri.host.lowercased()
        if domains.contains(host) { return host }
        return hosts.contains(host) ? domains.first : nil
    }

    /// The listener with the given transport and with the address family of `remote`, from which a request to `remote`
    /// is sent.
    ///
    /// The listener `wished` is preferred, then a listener on the same address, then any other listener. A loopback
    /// listener sends to an address outside this machine only if no other listener exists. The nodes' listener is never
    /// chosen, because only other nodes accept its certificate.
    package func listener(for transport: Transport, to remote: IPAddress, preferring wished: UInt16?) -> Listener? {
        let speaking = { (listener: Listener) in
            listener.transport == transport && !transport.isWebSocket && !listener.isForNodes
                && listener.bound.address.isV4 == remote.isV4
        }
        let fitting = { (listener: Listener) in
            speaking(listener) && (remote.isLoopback || !listener.bound.address.isLoopback)
        }
        let preferred = wished.flatMap { listener($0) }
        if let preferred, fitting(preferred) { return preferred }
        return listeners.first { fitting($0) && $0.bound.address == preferred?.bound.address }
            ?? listeners.first(where: fitting) ?? listeners.first(where: speaking)
    }

    /// The listener of a flow; if the settings have changed since the flow began, a similar listener.
    package func listener(for flow: Flow) -> Listener? {
        if let listener = listener(flow.listener), listener.transport == flow.transport { return listener }
        return listener(for: flow.transport, to: flow.remote.address, preferring: flow.listener)
    }

    package func listener(_ number: UInt16) -> Listener? {
        Int(number) < listeners.count ? listeners[Int(number)] : nil
    }
}

extension LocalIdentity {
    /// The user who makes a call: the authenticated user or else the user in From.
    package func callingUser(of incoming: IncomingRequest) -> AddressOfRecord? {
        if let sender = incoming.sender { return sender }
        let from = incoming.request.from.uri
        return home(of: from).flatMap { AddressOfRecord(from, home: $0) }
    }
}

extension AddressOfRecord {
    /// Creates the AOR of a URI in the domain `home` of this daemon; `nil` if the URI has no user part.
    package init?(_ uri: SIPURI, home: ByteString) {
        guard let user = uri.user, !user.isEmpty else { return nil }
        self.init(user: user.percentDecoded(), host: home)
    }

    /// The AOR as a value for P-Asserted-Identity (RFC 3325 section 9.1).
    package var assertedIdentity: ByteString { ByteString("<sip:\(self)>") }
}
