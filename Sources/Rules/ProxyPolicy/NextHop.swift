package import Addressing
package import Bytes
package import SIPGrammar
package import Settings

/// The next destination of a request, before its host name is looked up (RFC 3263 section 4).
package struct NextHop: Hashable, Sendable {
    /// The host of the hop: a numeric address, without the brackets of IPv6, or a host name.
    package let host: ByteString
    package let port: UInt16?
    /// The `transport` parameter of the URI; for `nil`, NAPTR records or the URI scheme decide.
    package let transport: Transport?
    package let isSecure: Bool

    package init(host: ByteString, port: UInt16?, transport: Transport?, isSecure: Bool) {
        self.host = host
        self.port = port
        self.transport = transport
        self.isSecure = isSecure
    }

    /// The hop that a URI names; `nil` if the daemon does not support the URI's transport.
    package init?(_ uri: SIPURI) {
        var transport: Transport?
        if let name = uri.parameters.value(of: "transport") {
            guard let known = Transport(parameter: name.string) else { return nil }
            transport = known
        }
        let host = uri.parameters.value(of: "maddr") ?? uri.host
        guard !host.isEmpty else { return nil }
        self.init(host: host, port: uri.port, transport: transport, isSecure: uri.scheme == .sips)
    }

    /// The transport and the endpoint of a numeric host, with the defaults of RFC 3263 sections 4.1 and 4.2; `nil` for
    /// a host name.
    package var numeric: (Transport, Endpoint)? {
        guard let address = host.withSpan({ IPAddress(ascii: $0) }) else { return nil }
        let transport = isSecure ? (self.transport?.isWebSocket == true ? .wss : .tls) : self.transport ?? .udp
        return (transport, Endpoint(address, port ?? (transport.isSecure ? 5061 : 5060)))
    }

    /// Whether both hops lead to the same server; letter case, default port and default transport make no difference.
    package func isSameServer(as other: NextHop) -> Bool {
        host.equalsIgnoringCase(other.host) && usualTransport == other.usualTransport && usualPort == other.usualPort
    }

    private var usualTransport: Transport { isSecure ? .tls : transport ?? .udp }
    private var usualPort: UInt16 { port ?? (usualTransport.isSecure ? 5061 : 5060) }

    /// The hop to a peer that has used the given transport before.
    ///
    /// If the URI names no transport and the peer used TCP, the hop uses TCP. If the peer used TLS or WebSocket, the
    /// hop is `nil`, unless the URI names a transport or is `sips:`.
    package func staying(on used: Transport) -> NextHop? {
        guard transport == nil, !isSecure else { return self }
        switch used {
        case .udp: return self
        case .tcp: return NextHop(host: host, port: port, transport: .tcp, isSecure: false)
        case .tls, .ws, .wss: return nil
        }
    }

    /// Parses a hop of the form `sip:host[:port][;transport=udp|tcp|tls]` in the settings.
    package init?(_ text: String) {
        var rest = Substring(text)
        var isSecure = false
        if rest.lowercased().hasPrefix("sips:") {
            isSecure = true
            rest = rest.dropFirst(5)
        } else if rest.lowercased().hasPrefix("sip:") {
            rest = rest.dropFirst(4)
        }
        var transport: Transport?
        let parts = rest.split(separator: ";", omittingEmptySubsequences: false)
        for parameter in parts.dropFirst() {
            guard parameter.lowercased().hasPrefix("transport="),
                let known = Transport(parameter: parameter.dropFirst(10))
            else { return nil }
            transport = known
        }
        guard var host = parts.first, !host.isEmpty, !host.contains("@") else { return nil }
        var port: UInt16?
        if let colon = host.lastIndex(of: ":"), !host.hasSuffix("]") {
            guard let number = UInt16(host[host.index(after: colon)...]) else { return nil }
            port = number
            host = host[..<colon]
        }
        guard !host.isEmpty else { return nil }
        self.init(host: ByteString(String(host)), port: port, transport: transport, isSecure: isSecure)
    }

    package static let settingType = SettingType<NextHop>.parsed("SIP URI") { text throws(SettingComplaint) in
        guard let hop = NextHop(text) else {
            throw SettingComplaint("expected sip:host[:port][;transport=udp|tcp|tls]")
        }
        guard hop.transport?.isWebSocket != true else {
            throw SettingComplaint("expected udp, tcp or tls: nobody can be called over WebSocket")
        }
        guard !hop.isSecure || hop.transport != .udp else {
            throw SettingComplaint("expected sip: where udp is asked for")
        }
        return hop
    } print: { hop in
        var text = (hop.isSecure ? "sips:" : "sip:") + hop.host.string
        if let port = hop.port { text += ":\(port)" }
        if let transport = hop.transport { text += ";transport=\(transport.parameterName)" }
        return text
    }
}
