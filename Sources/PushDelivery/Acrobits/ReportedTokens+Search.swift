package import Bytes

/// How a device is found by nothing but the tokens that its app reports.
extension ReportedTokens {
    /// The names by which a device with this stored token can be found: those of its installation at the provider.
    package static func names(in stored: PushToken) -> [ByteString] {
        switch stored.provider {
        case .acrobits:
            guard let read = try? AcrobitsToken(stored) else { return [] }
            return [read.calls?.deviceToken, read.other?.deviceToken].compactMap(\.self)
        case .apns, .apnsDevelopment:
            guard let read = try? APNsToken(stored) else { return [] }
            return [read.remote, read.voip].compactMap(\.self)
        case .fcm: return [stored.prid]
        // Nobody reports others.
        default: return []
        }
    }

    /// The name that a reported token stands for; `nil` for a ``Form/direct`` token that is neither Apple's nor
    /// Google's.
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

    /// Whether messages may go to a token that a device has.
    package enum Standing: Hashable, Sendable {
        case forMessages
        /// The phone must ring when this token is used.
        case forCallsOnly
        case ofAnotherApp
    }

    /// Judges one of the ``names(in:)`` of a stored token.
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
        // Nobody reports others.
        default: return .ofAnotherApp
        }
    }
}

extension PushToken {
    /// Whether both reach the same installation of an app, however they are written: devices and their servers write
    /// app and services differently, and each may know only one of two tokens.
    package func reachesInstallation(of other: PushToken) -> Bool {
        guard kind == other.kind else { return false }
        let names = ReportedTokens.names(in: other)
        return ReportedTokens.names(in: self).contains { names.contains($0) }
    }

    /// Whether it names everything that the other names of the same installation.
    package func covers(_ other: PushToken) -> Bool {
        if self == other { return true }
        let names = ReportedTokens.names(in: self)
        return reachesInstallation(of: other) && ReportedTokens.names(in: other).allSatisfy { names.contains($0) }
    }

    /// Whether somebody who knows nothing but this one token of an installation means this installation.
    package func isNamed(_ token: ByteString) -> Bool {
        if prid == token { return true }
        let name = kind == .apns ? token.lowercased() : token
        return ReportedTokens.names(in: self).contains(name)
    }

    /// The provider, with Apple's two environments as one.
    private var kind: PushProvider { provider == .apnsDevelopment ? .apns : provider }
}
