package import Bytes
package import PushDelivery
package import SIPGrammar

/// The push parameters of a Contact (RFC 8599 section 4.1, readings A1 to A4).
///
/// Most clients put push parameters into the URI, and some put them behind the `>` as header parameters; the daemon
/// reads both. A push parameter of the URI has priority over a header parameter. ``PushParameters`` does not know
/// whether the push provider is switched on.
package enum PushParameters: Hashable, Sendable {
    /// The contact has no push parameters, or all its push parameters are empty (rule R6).
    case none
    /// The contact has `pn-provider` but no `pn-prid`: the phone asks which push services are supported (RFC 8599
    /// section 4.1.5).
    case query(PushQuery)
    case push(PushToken)
    /// The contact names an unsupported push service, or has a token that belongs to no app in the settings (rules P2,
    /// P8).
    case unsupported(TokenProblem)
    /// The push parameters of the contact contradict each other. The contact is accepted without pushes, and the
    /// REGISTER does not get 555.
    case invalid(Invalid)

    package enum PushQuery: Hashable, Sendable {
        case all
        case provider(PushProvider)
        /// The phone asks about an unknown push service, so the response names no service.
        case unknown
    }

    package enum Invalid: Hashable, Sendable {
        /// The contact has `pn-prid` but no `pn-provider`.
        case missingProvider
        /// The value of a push parameter is longer than ``PushParameters/longestValue`` allows.
        case tooLong
        /// The contact has Apple tokens whose services differ from the services in `pn-param`.
        case unpairedTokens
    }

    /// The maximum length in bytes of `pn-prid` and of `pn-param`, after percent-decoding.
    package static let longestValue = 4096

    /// The push parameters of a Contact after percent-decoding, not yet checked.
    ///
    /// An unregistering contact can have fewer push parameters than the registered contact, so the parameters are
    /// compared one by one.
    package struct Triple: Hashable, Sendable {
        /// The value of `pn-provider`: `nil` without the parameter, empty without a value.
        package let provider: ByteString?
        package let param: ByteString?
        /// The value of `pn-prid`; `nil` if the parameter is missing or has no value.
        package let prid: ByteString?
        /// Whether `pn-param` and ECSS-10's `pn-params` have different values; `pn-param` is used (reading A1).
        package let hasConflictingParams: Bool
    }

    package init(contact: NameAddress, settings: RegistrarSettings) {
        self.init(Triple(contact: contact), settings: settings)
    }

    /// The push token of a contact with valid push parameters; `nil` for any other contact.
    var token: PushToken? {
        if case .push(let token) = self { return token }
        return nil
    }

    package init(_ triple: Triple, settings: RegistrarSettings) {
        guard let provider = triple.provider else {
            self = triple.prid == nil ? .none : .invalid(.missingProvider)
            return
        }
        guard let prid = triple.prid else {
            self = .query(provider.isEmpty ? .all : PushProvider(provider).map(PushQuery.provider) ?? .unknown)
            return
        }
        guard !provider.isEmpty else {
            self = .query(.all)
            return
        }
        guard let known = PushProvider(named: provider) else {
            self = .unsupported(.unknownProvider)
            return
        }
        let param = triple.param ?? .empty
        guard prid.count <= Self.longestValue, param.count <= Self.longestValue else {
            self = .invalid(.tooLong)
            return
        }
        if known.isApple {
            guard AppleServices.pairUp(prid: prid, param: param) else {
                self = .invalid(.unpairedTokens)
                return
            }
        }
        let token = PushToken(provider: known, param: param, prid: prid)
        self = settings.push.problem(with: token).map(Self.unsupported) ?? .push(token)
    }
}

extension PushParameters.Triple {
    /// The push parameters that a scan of a contact has found. If a push parameter occurs twice, the first value
    /// counts.
    private struct Found {
        var provider, singular, plural, prid: ByteString?

        init(in uri: SIPURI) {
            let parameters = uri.parameters
            parameters.forEachPlace { bytes, place in
                if place.isPush(in: bytes) { take(place, in: bytes, of: parameters.text, isOfField: false) }
            }
        }

        /// Takes the value of one parameter, if the name of the parameter is known. If `isOfField` is true, the
        /// parameter belongs to the header field and may be quoted; if false, to the URI.
        mutating func take(_ place: ParameterPlace, in bytes: Span<UInt8>, of text: ByteString, isOfField: Bool) {
            // A known name of at most eight bytes is recognised by its first eight bytes, compared as one number.
            let word = bytes.lowercasedWord(place.name)
            var value: ByteString {
                let text = place.value.map { text[$0] } ?? .empty
                return (isOfField ? text.unquoted() : text).percentDecoded()
            }
            if place.name.count > 8 {
                if provider == nil, bytes.equalsIgnoringCase(place.name, "pn-provider") {
                    provider = value
                } else if plural == nil, bytes.equalsIgnoringCase(place.name, "pn-params") {
                    plural = value
                }
            } else if prid == nil, word == ("pn-prid" as StaticString).word {
                prid = value
            } else if singular == nil, word == ("pn-param" as StaticString).word {
                singular = value
            }
        }
    }

    package init(contact: NameAddress) {
        // The URI is read first, because its parameters have priority over header parameters.
        var found = Found(in: contact.uri)
        let field = contact.parameters
        field.forEachPlace { bytes, place in
            if place.isPush(in: bytes) { found.take(place, in: bytes, of: field.text, isOfField: true) }
        }
        self.init(found, of: contact)
    }

    /// Reads the push parameters of the URI only, for stored contacts (see ``ContactText``).
    init(uri: SIPURI) { self.init(Found(in: uri), of: NameAddress(uri)) }

    /// Creates the push parameters from the scanned values. Linphone's parameters from before RFC 8599 are used if both
    /// `pn-provider` and `pn-prid` are missing.
    private init(_ found: Found, of contact: @autoclosure () -> NameAddress) {
        let (provider, singular, plural) = (found.provider, found.singular, found.plural)
        var prid = found.prid
        if provider == nil, prid == nil, let legacy = Self(legacyOf: contact()) {
            self = legacy
            return
        }
        var param = singular ?? plural
        // Phones send two Apple tokens in any order, so they are stored in a fixed order.
        if let two = prid, two.contains(UInt8(ascii: "&")),
            provider.map({ PushProvider(named: $0)?.isApple == true }) ?? true
        {
            prid = AppleServices.inOneOrder(prid: two)
            param = param.map(AppleServices.inOneOrder(param:))
        }
        self.init(
            provider: provider, param: param, prid: prid.flatMap { $0.isEmpty ? nil : $0 },
            hasConflictingParams: singular != nil && plural != nil && singular != plural)
    }

    /// Reads Linphone's push parameters from before RFC 8599 (`pn-type`, `pn-tok`, `app-id`) as Flexisip does.
    private init?(legacyOf contact: NameAddress) {
        guard let type = contact.decodedParameter("pn-type"), let token = contact.decodedParameter("pn-tok"),
            !type.isEmpty, !token.isEmpty
        else { return nil }
        var app = contact.decodedParameter("app-id") ?? .empty
        var provider = type
        if type.equalsIgnoringCase("apple") {
            provider = ByteString(app.hasSuffix(".dev") ? "apns.dev" : "apns")
            for suffix: StaticString in [".dev", ".prod"] where app.hasSuffix(suffix) {
                app = app[0..<app.count - suffix.utf8CodeUnitCount]
                break
            }
            // Linphone's old parameters contain no team. The team is an invented word, because pushes do not need the
            // team.
            if !app.isEmpty { app = ByteString(Array("ABCD1234.".utf8) + app.array) }
        }
        self.init(
            provider: provider, param: app.isEmpty ? nil : app, prid: token, hasConflictingParams: false)
    }

    /// Whether a contact with `expires=0` and these push parameters removes the contact with the given token. Every
    /// push parameter of the unregistering contact must be equal (reading A7).
    package func names(_ token: PushToken) -> Bool {
        guard let prid, prid == token.prid else { return false }
        if let provider, !provider.isEmpty, PushProvider(provider) != token.provider { return false }
        if let param, param != token.param { return false }
        return true
    }
}

extension NameAddress {
    /// The decoded value of a URI parameter or else of a header parameter, without quotes. If neither parameter exists,
    /// the value is `nil`; for a parameter without value, an empty text.
    func decodedParameter(_ name: StaticString) -> ByteString? {
        if let found = uri.parameters.first(named: name) { return (found.value ?? .empty).percentDecoded() }
        guard let found = parameters.first(named: name) else { return nil }
        return (found.value ?? .empty).unquoted().percentDecoded()
    }
}

extension ByteString {
    func hasSuffix(_ suffix: StaticString) -> Bool {
        count >= suffix.utf8CodeUnitCount && self[count - suffix.utf8CodeUnitCount..<count] == suffix
    }
}

extension PushProvider {
    /// Parses a `pn-provider` value like `init(_:)`, but creates no `String` for frequent values.
    init?(named value: ByteString) {
        if value == "fcm" {
            self = .fcm
        } else if value == "apns" {
            self = .apns
        } else {
            self.init(value)
        }
    }

    var isApple: Bool { self == .apns || self == .apnsDevelopment }
}

/// Reads the services of the two Apple tokens in one Contact.
///
/// Linphone writes two Apple tokens as `pn-prid = <token>:<service>[&<token>:<service>]` and
/// `pn-param = <team>.<bundle>[.<service>[&<service>]]`.
enum AppleServices {
    private static let words: [StaticString] = ["remote", "voip"]

    /// Whether `param` and `prid` list the same services, each with exactly one token.
    static func pairUp(prid: ByteString, param: ByteString) -> Bool {
        let services = services(of: param)
        let tokens = prid.split(at: [UInt8(ascii: "&")])
        guard tokens.count == services.count else { return false }
        var named: [ByteString] = []
        for token in tokens {
            guard let colon = token.firstIndex(of: UInt8(ascii: ":")) else {
                // A single token in `pn-prid` needs no service.
                return tokens.count == 1 && !token.isEmpty
            }
            guard colon > 0 else { return false }
            named.append(token[colon + 1..<token.count])
        }
        return Set(named).count == named.count && Set(named) == Set(services)
    }

    /// The tokens of a `pn-prid` in a fixed order: first the token for calls, then the other tokens by the name of the
    /// service. A `pn-prid` without services is returned unchanged.
    static func inOneOrder(prid: ByteString) -> ByteString {
        let tokens = prid.split(at: [UInt8(ascii: "&")])
        var named: [(name: ByteString, token: ByteString)] = []
        for token in tokens {
            guard let colon = token.firstIndex(of: UInt8(ascii: ":")) else { return prid }
            named.append((token[colon + 1..<token.count], token))
        }
        return joined(named.sorted { isBefore($0.name, $1.name) }.map(\.token), like: prid)
    }

    /// The `pn-param` with its services in the order that ``inOneOrder(prid:)`` gives to the tokens.
    static func inOneOrder(param: ByteString) -> ByteString {
        guard let dot = param.lastIndex(of: UInt8(ascii: ".")) else { return param }
        let parts = services(of: param)
        guard parts.count > 1 else { return param }
        var out = param[0..<dot + 1].array
        out.append(joined(parts.sorted(by: isBefore), like: param))
        return ByteString(out)
    }

    private static func isBefore(_ left: ByteString, _ right: ByteString) -> Bool {
        if (left == "voip") != (right == "voip") { return left == "voip" }
        return left.array.lexicographicallyPrecedes(right.array)
    }

    private static func joined(_ parts: [ByteString], like text: ByteString) -> ByteString {
        var out: [UInt8] = []
        out.reserveCapacity(text.count)
        for part in parts {
            if !out.isEmpty { out.append(UInt8(ascii: "&")) }
            out.append(part)
        }
        return ByteString(out)
    }

    /// The services after the last dot of `pn-param`; only `remote` if the text after the dot is no list of services.
    private static func services(of param: ByteString) -> [ByteString] {
        let last = param.lastIndex(of: UInt8(ascii: ".")).map { param[$0 + 1..<param.count] } ?? param
        let parts = last.split(at: [UInt8(ascii: "&")])
        let areServices = parts.allSatisfy { part in words.contains { part == $0 } }
        return areServices ? parts : [ByteString("remote")]
    }
}
