package import Bytes

/// The tokens that an app reports over HTTP: one for calls and one for all other pushes, each with its app identifier.
///
/// A token or app identifier that the report lacks is `nil`, and the store keeps the earlier value. On iOS, an app can
/// report its call token later than its other token, or earlier.
package struct ReportedTokens: Hashable, Sendable {
    /// Who pushes to the reported tokens: Acrobits' push server or the daemon itself.
    package enum Form: String, Hashable, Sendable, CaseIterable {
        /// Acrobits' push server sends the pushes, and gets the push tokens unchanged.
        case acrobits
        /// The daemon itself pushes through Apple or Google, with the token decoded from base64.
        case direct
    }

    package struct Part: Hashable, Sendable {
        /// The token in base64 or base64url, with or without padding.
        package var token: ByteString?
        package var appID: ByteString?

        package init(token: ByteString? = nil, appID: ByteString? = nil) {
            self.token = token
            self.appID = appID
        }
    }

    package let form: Form
    package let calls: Part
    package let other: Part
    /// The name of the user's account in the app; empty if the app does not report the name.
    package let selector: ByteString

    package init(form: Form, calls: Part, other: Part, selector: ByteString) {
        self.form = form
        self.calls = calls
        self.other = other
        self.selector = selector
    }

    package var isEmpty: Bool { calls.token == nil && other.token == nil }

    /// Combines an app's token report with the installation's `stored` token, and returns the push token to store. Each
    /// reported token keeps the app identifier of its report.
    ///
    /// - Returns: `nil` if a token's app identifier is unknown, or a ``Form/direct`` token is neither Apple's nor
    ///   Google's.
    package func pushToken(over stored: PushToken?) -> PushToken? {
        switch form {
        case .acrobits: acrobitsToken(over: stored)
        case .direct: directToken(over: stored)
        }
    }

    /// Whether a stored token contains one of the reported tokens.
    package func shares(_ stored: PushToken) -> Bool {
        let mine = [calls.token, other.token].compactMap(\.self)
        switch stored.provider {
        case .acrobits:
            guard let read = try? AcrobitsToken(stored) else { return false }
            return mine.contains { $0 == read.calls?.deviceToken || $0 == read.other?.deviceToken }
        case .apns, .apnsDevelopment:
            guard let read = try? APNsToken(stored) else { return false }
            return mine.contains { token in
                guard case .apple(let hex) = Decoded(token) else { return false }
                return hex == read.remote || hex == read.voip
            }
        case .fcm: return mine.contains { Decoded($0) == .google(stored.prid) }
        // Apps report only tokens of Acrobits, Apple and Google.
        default: return false
        }
    }

    /// The name of the user's account in the app, from a stored Acrobits token; `nil` for other tokens.
    package static func selector(of token: PushToken) -> ByteString? {
        token.provider == .acrobits ? (try? AcrobitsToken(token))?.selector : nil
    }

    // MARK: For Acrobits' push server

    private func acrobitsToken(over stored: PushToken?) -> PushToken? {
        let known = stored.flatMap { $0.provider == .acrobits ? try? AcrobitsToken($0) : nil }
        // A stored token without `:calls` or `:other` came from a report with one token; the token is for pushes other
        // than calls.
        let isUnmarked = stored?.prid.firstIndex(of: UInt8(ascii: ":")) == nil
        let calls = Self.part(calls, over: isUnmarked ? nil : known?.calls)
        let other = Self.part(other, over: known?.other)
        var prid: [UInt8] = []
        var param: [UInt8] = []
        switch (calls.token, other.token) {
        case (nil, nil): return nil
        case (let token?, nil):
            guard let app = calls.appID else { return nil }
            prid = token.array + Array(":calls".utf8)
            param = app.array
        case (nil, let token?):
            // If an app reports only one token, as on Android, the token is also used for calls.
            guard let app = other.appID else { return nil }
            prid = token.array
            param = app.array
        case (let first?, let second?):
            guard let callsApp = calls.appID, let otherApp = other.appID else { return nil }
            prid = first.array + Array(":calls&".utf8) + second.array + Array(":other".utf8)
            param = callsApp.array + [UInt8(ascii: "&")] + otherApp.array
        }
        let account = selector.isEmpty ? known?.selector ?? .empty : selector
        if !account.isEmpty { param += [UInt8(ascii: ":")] + account.array }
        let token = PushToken(provider: .acrobits, param: ByteString(param), prid: ByteString(prid))
        // If the new token differs from the stored token only in spelling, the stored spelling is kept, because the
        // device will send it again.
        if let stored, let known, known == (try? AcrobitsToken(token)) { return stored }
        return token
    }

    private static func part(_ told: Part, over known: AcrobitsToken.Address?) -> Part {
        guard let token = told.token else { return Part(token: known?.deviceToken, appID: known?.appID) }
        return Part(token: token, appID: told.appID ?? known?.appID)
    }

    // MARK: For us

    /// Apple's team identifier, which precedes the bundle identifier in `pn-param`. Pushes do not need Apple's team
    /// identifier, so `pn-param` gets an invented team.
    private static let team = Array("TEAM.".utf8)

    private func directToken(over stored: PushToken?) -> PushToken? {
        let (first, second) = (calls.token.map { Decoded($0) }, other.token.map { Decoded($0) })
        switch (first, second) {
        case (.google(let token)?, nil), (.google(let token)?, .google?), (nil, .google(let token)?):
            // At Google, an app's installation has only one token. If an app reports two Google tokens, the token for
            // calls is used.
            let known = stored?.provider == .fcm ? stored?.param : nil
            let app = first == nil ? other.appID : calls.appID ?? other.appID
            return PushToken(provider: .fcm, param: app ?? known ?? .empty, prid: token)
        case (.apple(let voip)?, nil): return appleToken(voip: voip, remote: nil, over: stored)
        case (nil, .apple(let remote)?): return appleToken(voip: nil, remote: remote, over: stored)
        case (.apple(let voip)?, .apple(let remote)?): return appleToken(voip: voip, remote: remote, over: stored)
        case (nil, nil), (.unknown?, _), (_, .unknown?), (.apple?, .google?), (.google?, .apple?): return nil
        }
    }

    private func appleToken(voip: ByteString?, remote: ByteString?, over stored: PushToken?) -> PushToken? {
        let stored = stored.flatMap { $0.provider == .apns || $0.provider == .apnsDevelopment ? $0 : nil }
        let known = stored.flatMap { try? APNsToken($0) }
        let apps = [calls.appID, other.appID].compactMap { $0.map(Self.bundle) }
        guard let bundle = apps.first ?? known?.bundle, apps.allSatisfy({ $0 == bundle }) else { return nil }
        let (voip, remote) = (voip ?? known?.voip, remote ?? known?.remote)
        var (provider, team) = (PushProvider.apns, Self.team)
        if let stored, let known, known.bundle == bundle {
            let (isSameVoIP, isSameRemote) = (voip == known.voip, remote == known.remote)
            // If both reported tokens are unchanged, the stored spelling is kept, because the device will send it
            // again.
            if isSameVoIP, isSameRemote { return stored }
            // The stored token's environment and team stay, because they can come from a REGISTER, and a report
            // contains neither.
            if isSameVoIP && voip != nil || isSameRemote && remote != nil {
                provider = stored.provider
                team = Array(stored.param.array.prefix { $0 != UInt8(ascii: ".") }) + [UInt8(ascii: ".")]
            }
        }
        let tokens = [
            voip.map { $0.array + Array(":voip".utf8) }, remote.map { $0.array + Array(":remote".utf8) },
        ].compactMap(\.self)
        let services = voip == nil ? ".remote" : remote == nil ? ".voip" : ".voip&remote"
        return PushToken(
            provider: provider, param: ByteString(team + bundle.array + Array(services.utf8)),
            prid: ByteString(tokens.joined(separator: [UInt8(ascii: "&")])))
    }

    /// The bundle identifier in an app identifier, without the suffix `.voip` of Apple's VoIP topics.
    static func bundle(_ appID: ByteString) -> ByteString {
        let suffix: StaticString = ".voip"
        let start = appID.count - suffix.utf8CodeUnitCount
        return start > 0 && appID[start..<appID.count] == suffix ? appID[0..<start] : appID
    }

    /// A reported token after base64 decoding, and the provider that has tokens of this form.
    enum Decoded: Equatable {
        /// A token of Apple, written as 64 hexadecimal digits.
        case apple(ByteString)
        case google(ByteString)
        case unknown

        init(_ token: ByteString) {
            let bytes = ReportedTokens.bytes(ofBase64: token)
            if let bytes, !bytes.isEmpty, bytes.allSatisfy({ (0x21...0x7e).contains($0) }) {
                self = .google(ByteString(bytes))
            } else if let bytes, bytes.count == 32 {
                self = .apple(ByteString(Hex.encode(bytes)))
            } else {
                self = .unknown
            }
        }
    }

    /// Decodes a push token in base64 or base64url, with or without padding. Surplus bits at the end of the base64 text
    /// are ignored.
    private static func bytes(ofBase64 text: ByteString) -> [UInt8]? {
        var bytes: [UInt8] = []
        var (bits, count): (UInt32, Int) = (0, 0)
        for character in text.array {
            if character == UInt8(ascii: "=") { continue }
            guard let value = Base64.standard.value(of: character) ?? Base64.url.value(of: character) else {
                return nil
            }
            bits = (bits << 6 | UInt32(value)) & 0xfff
            count += 1
            let isWhole = count % 4 != 1
            if isWhole {
                let shift: UInt32 = count % 4 == 2 ? 4 : count % 4 == 3 ? 2 : 0
                bytes.append(UInt8(truncatingIfNeeded: bits >> shift))
            }
        }
        return count % 4 == 1 ? nil : bytes
    }
}
