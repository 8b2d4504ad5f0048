package import Settings

/// The HTTP proxy for an app's requests to its provider.
package enum PushProxy: Hashable, Sendable {
    /// The app uses no HTTP proxy, even if the setting for all providers names a proxy.
    case none
    case http(Address)

    /// The address of an HTTP proxy, which opens a tunnel to the provider with CONNECT.
    package struct Address: Hashable, Sendable, CustomStringConvertible {
        /// A host name or an IP address, without the brackets of IPv6.
        package let host: String
        package let port: UInt16
        package let user: Secret?
        package let password: Secret?

        /// The URL of the HTTP proxy as in the settings, without user and password.
        package var description: String {
            let server = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
            return user == nil ? "http://\(server)" : "http://(secret)@\(server)"
        }
    }

    /// The HTTP proxy for an app: the app's own setting or else the setting for all providers.
    package static func chosen(_ own: PushProxy?, else general: PushProxy?) -> Address? {
        guard case .http(let address)? = own ?? general else { return nil }
        return address
    }
}

extension PushProxy {
    /// The type of the settings for HTTP proxies. Error messages do not quote the URL, because it may contain a
    /// password.
    package static let settingType = SettingType<PushProxy>(name: "URL or none") { node throws(SettingMismatch) in
        guard let text = node.text else { throw SettingMismatch(Self.expected, at: node.position) }
        if text == "none" { return .none }
        do throws(SettingComplaint) {
            return .http(try Address(text))
        } catch {
            throw SettingMismatch(error.sentence, at: node.position)
        }
    } print: {
        switch $0 {
        case .none: "none"
        case .http(let address): "\"\(address)\""
        }
    }

    fileprivate static let expected = "expected http://host:port, http://user:password@host:port, or none"
}

extension PushProxy.Address {
    /// Parses `http://user:password@host:port`, with or without user and password.
    package init(_ text: String) throws(SettingComplaint) {
        guard !text.hasPrefix("https://") else {
            throw SettingComplaint(
                "expected http://: the proxy itself is reached without TLS, and the provider with TLS through the proxy"
            )
        }
        guard !text.hasPrefix("socks") else {
            throw SettingComplaint("expected http://: a SOCKS proxy cannot be used, only an HTTP proxy with CONNECT")
        }
        guard text.hasPrefix("http://") else { throw SettingComplaint(PushProxy.expected) }
        var rest = text.dropFirst("http://".count)
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        var login: Substring?
        if let at = rest.lastIndex(of: "@") {
            login = rest[..<at]
            rest = rest[rest.index(after: at)...]
        }
        guard let place = HostAndPort(String(rest)), place.host.utf8.allSatisfy({ !"?#%\\@".utf8.contains($0) }) else {
            throw SettingComplaint("expected a host and a port, such as http://proxy.example.net:3128")
        }
        host = place.host
        port = place.port
        guard let login else {
            user = nil
            password = nil
            return
        }
        let parts = login.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let user = parts.first.flatMap({ Self.decoded($0) }), !user.isEmpty, !user.contains(":"),
            let password = Self.decoded(parts.count > 1 ? parts[1] : "")
        else {
            throw SettingComplaint("expected user:password before the @, with other characters as %XX")
        }
        self.user = Secret(user)
        self.password = Secret(password)
    }

    /// Undoes percent-encoding; `nil` for malformed text or text with control characters.
    private static func decoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%") {
                guard rest.count >= 2, let value = UInt8(String(Substring(rest.prefix(2))), radix: 16) else {
                    return nil
                }
                rest = rest.dropFirst(2)
                bytes.append(value)
            } else {
                bytes.append(byte)
            }
        }
        guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }) else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }
}

extension Setting {
    /// The setting for the HTTP proxy of one provider, with the key `proxy`.
    static func proxy(_ path: SettingPath<Group, PushProxy?>) -> Setting {
        value(
            "proxy", path, PushProxy.settingType, example: "\"http://proxy.example.net:3128\"",
            "The HTTP proxy for requests to the push provider, as a URL in the form of push.proxy. With none, the daemon reaches the push provider without a proxy, even if push.proxy is set."
        ).taken(.atOnce)
    }
}
