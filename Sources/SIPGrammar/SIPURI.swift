package import Bytes

/// One `name[=value]`. The value is as it stood on the wire, with its escapes and quotes.
package struct Parameter: Hashable, Sendable {
    package let name: ByteString
    package let value: ByteString?

    package init(name: ByteString, value: ByteString?) {
        self.name = name
        self.value = value
    }
}

extension [UInt8] {
    /// Appends a semicolon and the parameter as it stood on the wire.
    package mutating func append(_ parameter: Parameter) {
        append(";")
        append(parameter.name)
        guard let value = parameter.value else { return }
        append("=")
        append(value)
    }
}

extension [Parameter] {
    /// The first parameter of that lower-case name, its name compared without case.
    package func first(named name: StaticString) -> Parameter? {
        for parameter in self where parameter.name.equalsIgnoringCase(name) { return parameter }
        return nil
    }

    /// Its value; `nil` when the parameter is missing or has none.
    package func value(of name: StaticString) -> ByteString? { first(named: name)?.value }

    package func contains(_ name: StaticString) -> Bool { first(named: name) != nil }
}

/// A URI (RFC 3261 section 19.1, RFC 3966): decoded parts of a `sip:` or `sips:` one, and always the text as received.
package struct SIPURI: Sendable {
    package enum Scheme: Hashable, Sendable {
        case sip, sips, tel
        /// Any other, in lower case.
        case other(ByteString)
    }

    package let scheme: Scheme
    /// The user part as on the wire (escapes kept), without the password; for `tel:` the number. `nil` when absent.
    package let user: ByteString?
    package let password: ByteString?
    /// As on the wire; IPv6 in its brackets. Empty for a URI without a host.
    package let host: ByteString
    package let port: UInt16?
    package let parameters: [Parameter]
    /// What follows `?`, not decoded; never copied into a request (RFC 3261 section 16.6).
    package let headers: ByteString?
    /// The whole URI as received, without angle brackets.
    package let text: ByteString

    package init(
        scheme: Scheme, user: ByteString?, password: ByteString?, host: ByteString, port: UInt16?,
        parameters: [Parameter], headers: ByteString?, text: ByteString
    ) {
        self.scheme = scheme
        self.user = user
        self.password = password
        self.host = host
        self.port = port
        self.parameters = parameters
        self.headers = headers
        self.text = text
    }
}

/// A name-addr or addr-spec with the header parameters after it (From, To, Contact, Route, Record-Route, Path).
package struct NameAddress: Sendable {
    /// As on the wire, quotes included; `nil` when absent.
    package let displayName: ByteString?
    package let uri: SIPURI
    /// The *header* parameters: what stands after `>`.
    package let parameters: [Parameter]

    package init(displayName: ByteString?, uri: SIPURI, parameters: [Parameter]) {
        self.displayName = displayName
        self.uri = uri
        self.parameters = parameters
    }

    package var tag: ByteString? { parameters.value(of: "tag") }
}

/// One Via value (RFC 3261 section 20.42, RFC 3581).
package struct Via: Sendable {
    /// The transport as it was received (`UDP`, `tls-sctp`, ...).
    package let transport: ByteString
    package let host: ByteString
    package let port: UInt16?
    package let parameters: [Parameter]

    package init(transport: ByteString, host: ByteString, port: UInt16?, parameters: [Parameter]) {
        self.transport = transport
        self.host = host
        self.port = port
        self.parameters = parameters
    }

    package var branch: ByteString? { parameters.value(of: "branch") }

    /// Whether there is an `rport` parameter, with or without a value (RFC 3581 section 4).
    package var wantsResponsePort: Bool { parameters.contains("rport") }
}
