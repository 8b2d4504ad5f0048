package import Bytes

/// The one or two device tokens of an Apple contact, read from `pn-param` and `pn-prid` (RFC 8599 section 10, and
/// Linphone's format with several services).
package struct APNsToken: Hashable, Sendable {
    /// The kind of push that a device token receives.
    package enum Service: String, Hashable, Sendable, CaseIterable {
        /// Pushes to the token show notifications, but do not start an app that is not running.
        case remote
        /// Pushes to the token are PushKit pushes, which the app must report to iOS as calls.
        case voip
    }

    /// Why `pn-param` and `pn-prid` contain no usable token, so that the contact can get no push.
    package enum Problem: Error, Hashable, Sendable, CustomStringConvertible {
        case emptyToken, unusableToken, unknownService, repeatedService, missingService
        /// The services in `pn-param` differ from the services in `pn-prid`.
        case servicesDiffer

        package var description: String {
            switch self {
            case .emptyToken: "pn-prid contains an empty token"
            case .unusableToken: "pn-prid contains a token that cannot be part of a path"
            case .unknownService: "pn-prid names a service other than remote and voip"
            case .repeatedService: "pn-prid or pn-param names a service twice"
            case .missingService: "pn-prid contains two tokens without their services"
            case .servicesDiffer: "pn-param and pn-prid name different services"
            }
        }
    }

    package let remote: ByteString?
    package let voip: ByteString?
    /// The bundle identifier in a `pn-param` of the form `Team.Bundle[.services]`; otherwise `nil`, and the settings
    /// supply the topic.
    package let bundle: ByteString?

    /// Parses the push parameters of an Apple contact, after percent-decoding.
    ///
    /// - Parameters:
    ///   - token: the push parameters; the initialiser does not check the provider.
    ///   - fallback: the token's service if neither `pn-param` nor `pn-prid` names a service.
    /// - Throws: the first problem in the token's text.
    package init(_ token: PushToken, withoutService fallback: Service = .remote) throws(Problem) {
        let app = try AppName(token.param)
        bundle = app?.bundle
        let tokens = try Self.tokens(token.prid)
        // Only a `pn-param` of the form `Team.Bundle[.services]` can list services; any other form gives `nil` for
        // `named`.
        let named = app.map { $0.services.isEmpty ? [fallback] : $0.services }
        // In RFC 8599, only `pn-param` names the service, so a single token in `pn-prid` need not name one.
        if tokens.count == 1, tokens[0].service == nil {
            let service = named?.first ?? fallback
            guard named?.count != 2 else { throw .missingService }
            remote = service == .remote ? tokens[0].bytes : nil
            voip = service == .voip ? tokens[0].bytes : nil
            return
        }
        var remote: ByteString?
        var voip: ByteString?
        for token in tokens {
            switch token.service {
            case .remote where remote == nil: remote = token.bytes
            case .voip where voip == nil: voip = token.bytes
            case .remote, .voip: throw .repeatedService
            case nil: throw .missingService
            }
        }
        if let named {
            guard named.contains(.remote) == (remote != nil), named.contains(.voip) == (voip != nil) else {
                throw .servicesDiffer
            }
        }
        self.remote = remote
        self.voip = voip
    }

    /// The bundle identifier in a `pn-param` of the form `Team.Bundle[.services]`; `nil` for any other form.
    static func bundle(in param: ByteString) -> ByteString? {
        guard let app = try? AppName(param) else { return nil }
        return app.bundle
    }

    // MARK: pn-prid

    private struct Entry {
        let bytes: ByteString
        let service: Service?
    }

    /// Parses the one or two tokens of a `pn-prid`; each token has the form `token[:service]`, and `&` joins two
    /// tokens.
    private static func tokens(_ prid: ByteString) throws(Problem) -> [Entry] {
        let parts = prid.parts(separatedBy: UInt8(ascii: "&"))
        guard parts.count <= Service.allCases.count else { throw .repeatedService }
        var entries: [Entry] = []
        for part in parts { entries.append(try entry(part)) }
        return entries
    }

    private static func entry(_ part: ByteString) throws(Problem) -> Entry {
        guard let colon = part.firstIndex(of: UInt8(ascii: ":")) else {
            return Entry(bytes: try token(part), service: nil)
        }
        guard let service = Service(word: part[colon + 1..<part.count]) else { throw .unknownService }
        return Entry(bytes: try token(part[0..<colon]), service: service)
    }

    /// Checks a token, and returns hexadecimal tokens in lower case, as APNs reports them.
    private static func token(_ bytes: ByteString) throws(Problem) -> ByteString {
        guard !bytes.isEmpty else { throw .emptyToken }
        // A token `.` or `..` in a URL's path would lead to another resource, even percent-encoded.
        guard bytes.count > 2 || bytes[0] != UInt8(ascii: ".") || bytes[bytes.count - 1] != UInt8(ascii: ".") else {
            throw .unusableToken
        }
        return bytes.isHexadecimal ? bytes.lowercased() : bytes
    }
}

extension APNsToken.Service {
    fileprivate init?(word: ByteString) { self.init(rawValue: word.lowercased().string) }
}

/// A `pn-param` of the form `Team.Bundle[.services]`: the team ends at the first dot, and optional services follow the
/// last dot.
private struct AppName {
    let bundle: ByteString
    let services: [APNsToken.Service]

    /// Parses a `pn-param`. A `pn-param` of another form gives `nil`: ECSS-10 allows such a `pn-param` if the daemon
    /// only compares it with the settings (R5).
    init?(_ param: ByteString) throws(APNsToken.Problem) {
        guard let team = param.firstIndex(of: UInt8(ascii: ".")), team > 0 else { return nil }
        let name = param[team + 1..<param.count]
        if let dot = name.lastIndex(of: UInt8(ascii: ".")),
            let services = try Self.services(name[dot + 1..<name.count])
        {
            bundle = name[0..<dot]
            self.services = services
        } else {
            bundle = name
            services = []
        }
        guard bundle.isBundleIdentifier else { return nil }
    }

    private static func services(_ text: ByteString) throws(APNsToken.Problem) -> [APNsToken.Service]? {
        var services: [APNsToken.Service] = []
        for word in text.parts(separatedBy: UInt8(ascii: "&")) {
            guard let service = APNsToken.Service(word: word) else { return nil }
            guard !services.contains(service) else { throw .repeatedService }
            services.append(service)
        }
        return services
    }
}

extension ByteString {
    /// Whether the text is a bundle identifier: at most 155 letters, digits, `-`, `.` and `_`, as in Apple's
    /// CFBundleIdentifier.
    fileprivate var isBundleIdentifier: Bool {
        !isEmpty && count <= 155 && allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "-._".utf8.contains($0) }
    }
}
