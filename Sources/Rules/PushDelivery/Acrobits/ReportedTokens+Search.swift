package import Bytes

/// Finds a device by the tokens that its app reports over HTTP.
extension ReportedTokens {
    /// The names of the installation at the provider, by which a device with this stored token is found.
    package static func names(in stored: PushToken) -> [ByteString] {
        switch stored.provider {
        case .acrobits:
            guard let read = try? AcrobitsToken(stored) else { return [] }
            return [read.calls?.deviceToken, read.other?.deviceToken].compactMap(\.self)
        case .apns, .apnsDevelopment:
            guard let read = try? APNsToken(stored) else { return [] }
            return [read.remote, read.voip].compactMap(\.self)
        case .fcm: return [stored.prid]
        // Apps report only tokens of the providers above.
        default: return []
        }
    }

    /// The name of the installation that a reported token means; `nil` for a ``Form/direct`` token that is neither
    /// Apple's nor Google's.
    package static func name(of token: ByteString, _ form: Form) -> ByteString? {
        switch form {
        case .acrobits: token
        case .direct:
            switch Decoded(token) {
            case .apple(let name), .google(let name): name
            case .unknown: nil
            }
        }
    }

    /// Whether a push with a text may be sent to one of a device's tokens.
    package enum Standing: Hashable, Sendable {
        case forMessages
        /// The token is for calls only, because the phone must ring when it is used.
        case forCallsOnly
        case ofAnotherApp
    }

    /// Whether a text may be pushed to the token that has one of the ``names(in:)`` of a stored token.
    package static func standing(of name: ByteString, appID: ByteString, in stored: PushToken) -> Standing {
        switch stored.provider {
        case .acrobits:
            guard let other = (try? AcrobitsToken(stored))?.other, other.deviceToken == name else {
                return .forCallsOnly
            }
            return other.appID == appID ? .forMessages : .ofAnotherApp
        case .apns, .apnsDevelopment:
            guard let read = try? APNsToken(stored), read.remote == name else { return .forCallsOnly }
            return read.bundle == nil || read.bundle == bundle(appID) ? .forMessages : .ofAnotherApp
        case .fcm: return stored.param.isEmpty || stored.param == appID ? .forMessages : .ofAnotherApp
        // Apps report only tokens of the providers above.
        default: return .ofAnotherApp
        }
    }
}

extension PushToken {
    /// Whether both tokens belong to the same installation of an app, even if their formats differ. Devices and their
    /// servers write app and services differently, and each may know only one of the two tokens.
    package func reachesInstallation(of other: PushToken) -> Bool {
        guard kind == other.kind else { return false }
        let names = ReportedTokens.names(in: other)
        return ReportedTokens.names(in: self).contains { names.contains($0) }
    }

    /// Whether this token contains all names of another token of the same installation.
    package func covers(_ other: PushToken) -> Bool {
        if self == other { return true }
        let names = ReportedTokens.names(in: self)
        return reachesInstallation(of: other) && ReportedTokens.names(in: other).allSatisfy { names.contains($0) }
    }

    /// Whether the given token is one of the tokens of this installation.
    package func isNamed(_ token: ByteString) -> Bool {
        if prid == token { return true }
        let name = kind == .apns ? token.lowercased() : token
        return ReportedTokens.names(in: self).contains(name)
    }

    /// The provider, where Apple's two environments are one.
    private var kind: PushProvider { provider == .apnsDevelopment ? .apns : provider }
}
