package import Bytes

/// Finds devices by the push tokens that apps report over HTTP.
extension ReportedTokens {
    /// The device tokens in a stored `PushToken`; the push provider identifies an app's installation by a device token.
    package static func names(in stored: PushToken) -> [ByteString] {
        switch stored.provider {
        case .acrobits:
            guard let read = try? AcrobitsToken(stored) else { return [] }
            return [read.calls?.deviceToken, read.other?.deviceToken].compactMap(\.self)
        case .apns, .apnsDevelopment:
            guard let read = try? APNsToken(stored) else { return [] }
            return [read.remote, read.voip].compactMap(\.self)
        case .fcm: return [stored.prid]
        // Apps report only tokens of Acrobits, Apple and Google.
        default: return []
        }
    }

    /// The device token in a reported token; `nil` for a ``Form/direct`` token that is neither Apple's nor Google's.
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

    /// Whether the push provider delivers text messages to a device token, and why not.
    package enum Standing: Hashable, Sendable {
        case forMessages
        /// The push token is for calls only, because the phone must ring at each push to the token.
        case forCallsOnly
        case ofAnotherApp
    }

    /// Decides whether a text message can be pushed to one of the ``names(in:)`` of a stored push token.
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
        // Apps report only tokens of Acrobits, Apple and Google.
        default: return .ofAnotherApp
        }
    }
}

extension PushToken {
    /// Whether two push tokens belong to one installation of an app, even if the tokens' formats differ. Two tokens of
    /// one installation can differ, because servers write app and services differently, or know only one of two device
    /// tokens.
    package func reachesInstallation(of other: PushToken) -> Bool {
        guard kind == other.kind else { return false }
        let names = ReportedTokens.names(in: other)
        return ReportedTokens.names(in: self).contains { names.contains($0) }
    }

    /// Whether a push token contains all device tokens of `other`, so that both tokens belong to one installation of
    /// the app.
    package func covers(_ other: PushToken) -> Bool {
        if self == other { return true }
        let names = ReportedTokens.names(in: self)
        return reachesInstallation(of: other) && ReportedTokens.names(in: other).allSatisfy { names.contains($0) }
    }

    /// Whether `token` is the whole `pn-prid`, or one of the device tokens in `pn-prid`.
    package func isNamed(_ token: ByteString) -> Bool {
        if prid == token { return true }
        let name = kind == .apns ? token.lowercased() : token
        return ReportedTokens.names(in: self).contains(name)
    }

    /// The provider, with Apple's two environments treated as one.
    private var kind: PushProvider { provider == .apnsDevelopment ? .apns : provider }
}
