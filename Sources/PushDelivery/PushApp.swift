package import Bytes
package import Timekeeping

/// One app at one provider: where its pushes go, how they are worded, and how many are sent at a time.
package struct PushApp: Sendable {
    /// Its place in the ``PushDirectory``.
    package struct ID: Hashable, Sendable { package let index: Int }

    /// The settings of the provider. How its requests are written and what its answers mean is in the folder of its
    /// name.
    package enum Service: Sendable {
        case apns(APNsSettings)
        case fcm(FCMSettings)
        case webPush(WebPushSettings)
        case acrobits(AcrobitsSettings)
        case http(HTTPPushAppSettings)
    }

    package let id: ID
    package let provider: PushProvider
    /// The name in logs and commands: the provider's name or, for further apps, `provider/name`.
    package let name: String
    package let service: Service
    let payload: PayloadSettings

    /// Writes the request of one try.
    ///
    /// - Parameters:
    ///   - push: what to say to whom; its token belongs to this app.
    ///   - deviceCode: the name of the device that the app uses in its reports to us, if it ``asksForDeviceCode``.
    ///   - now: the time of the try, from which lifetimes are counted.
    /// - Returns: the request, or the outcome of the push if there can be none.
    package func render(_ push: PushRequest, deviceCode: ByteString? = nil, now: UnixTime) -> PushRendering {
        let context = PayloadContext(push: push, deviceCode: deviceCode, settings: payload, now: now)
        switch service {
        case .apns(let settings): return APNsRequest.make(context, settings)
        case .fcm(let settings):
            switch settings.bodyFormat {
            case .v1: return FCMRequest.make(context, settings)
            case .legacy: return FCMLegacyRequest.make(context, settings)
            }
        case .webPush(let settings): return WebPushRequest.make(context, settings)
        case .acrobits(let settings): return AcrobitsRequest.make(context, settings)
        case .http(let settings): return HTTPPushRequest.make(context, settings)
        }
    }

    /// Whether payloads carry a code by which the app names the device when it reports what became of a push.
    package var asksForDeviceCode: Bool {
        switch service {
        case .apns(let settings): settings.payload == .tenDarts
        case .fcm(let settings): settings.payload == .tenDarts
        case .webPush(let settings): settings.payload == .tenDarts
        case .acrobits, .http: false
        }
    }

    /// What an answer means for the push.
    ///
    /// - Parameters:
    ///   - answer: the answer to a request that ``render(_:deviceCode:now:)`` made.
    ///   - isProven: whether the provider has accepted a push of this app before. As long as it has not, an answer that
    ///     calls the token foreign is blamed on our settings, so that no contact is lost to a wrong setting.
    ///   - now: the time, which a `Retry-After` with a date is compared to.
    /// - Returns: the outcome of this try.
    package func outcome(of answer: ProviderAnswer, isProven: Bool, now: UnixTime) -> PushOutcome {
        let retryAfter = answer.retryAfter.flatMap { RetryAfter.duration($0, now: now) }
        switch service {
        case .apns: return APNsReason.outcome(of: answer, retryAfter, isProven: isProven)
        case .fcm(let settings):
            switch settings.bodyFormat {
            case .v1: return FCMReason.outcome(of: answer, retryAfter, isProven: isProven)
            case .legacy: return FCMLegacyReason.outcome(of: answer, retryAfter, isProven: isProven)
            }
        case .webPush: return WebPushReason.outcome(of: answer, retryAfter)
        case .acrobits: return AcrobitsReason.outcome(of: answer, retryAfter)
        case .http(let settings):
            return HTTPPushReason.outcome(of: answer, settings, retryAfter, isProven: isProven)
        }
    }

    /// Scheme, host and port of the server that all requests go to; `nil` if each token names its own, see
    /// ``origin(of:)``.
    package var baseURL: String? {
        switch service {
        case .apns(let settings): settings.url(of: provider)
        case .fcm(let settings): settings.baseURL
        case .webPush: nil
        case .acrobits(let settings): settings.baseURL
        case .http(let settings): settings.url?.baseURL
        }
    }

    /// The server that this token names, if the app has no ``baseURL``: scheme, host, and the port unless it is the
    /// standard one. It is `nil`, too, for a token that cannot be pushed.
    package func origin(of token: PushToken) -> String? {
        switch service {
        case .webPush(let settings): WebPushToken(token, allowedAt: settings.hosts)?.origin
        case .apns, .fcm, .acrobits, .http: nil
        }
    }

    /// Whether a connection is opened ahead of the first push. It is if all pushes go to one server over TLS.
    package var keepsConnection: Bool { baseURL?.hasPrefix("https:") == true }

    package var limits: PushLimits {
        switch service {
        case .apns(let settings): settings.limits
        case .fcm(let settings): settings.limits
        case .webPush(let settings): settings.limits
        case .acrobits(let settings): settings.limits
        case .http(let settings): settings.limits
        }
    }
}

/// All apps that are switched on, and which of them a token belongs to.
package struct PushDirectory: Sendable {
    package private(set) var apps: [PushApp] = []
    /// The app for tokens that name no app, or an app that is not listed.
    private var fallbacks: [PushProvider: PushApp.ID] = [:]
    private var named: [PushProvider: [ByteString: PushApp.ID]] = [:]

    package init(_ settings: PushSettings) {
        if settings.apns.enabled {
            for provider in [PushProvider.apns, .apnsDevelopment] {
                add(provider, settings.apns, settings.apns.apps, settings.payload, names: \.topics) {
                    $0.enabled ? .apns($0) : nil
                }
            }
        }
        if settings.fcm.enabled {
            add(.fcm, settings.fcm, settings.fcm.apps, settings.payload, names: \.params) {
                $0.enabled ? .fcm($0) : nil
            }
        }
        if settings.webPush.enabled {
            fallbacks[.webPush] = append(
                .webPush, PushProvider.webPush.rawValue, .webPush(settings.webPush), settings.payload)
        }
        if settings.acrobits.enabled {
            fallbacks[.acrobits] = append(
                .acrobits, PushProvider.acrobits.rawValue, .acrobits(settings.acrobits), settings.payload)
        }
        if settings.http.enabled {
            for (name, app) in settings.http.apps.sorted(by: { $0.key < $1.key }) {
                named[.http, default: [:]][ByteString(name)] = append(
                    .http, "\(PushProvider.http.rawValue)/\(name)", .http(app), settings.payload)
            }
        }
    }

    package subscript(id: PushApp.ID) -> PushApp? { apps.indices.contains(id.index) ? apps[id.index] : nil }

    /// The app that a token belongs to; `nil` when its provider is switched off, or has neither the app that the token
    /// names nor one that stands in for it.
    package func app(for token: PushToken) -> PushApp.ID? {
        if let named = named[token.provider], let name = Self.name(in: token), let app = named[name] { return app }
        return fallbacks[token.provider]
    }

    /// The name of the app in a token's `pn-param`.
    private static func name(in token: PushToken) -> ByteString? {
        switch token.provider {
        case .apns, .apnsDevelopment: APNsToken.bundle(in: token.param)
        case .fcm, .http: token.param
        case .webPush, .acrobits: nil
        }
    }

    private mutating func append(
        _ provider: PushProvider, _ name: String, _ service: PushApp.Service, _ payload: PayloadSettings
    ) -> PushApp.ID {
        let id = PushApp.ID(index: apps.count)
        apps.append(PushApp(id: id, provider: provider, name: name, service: service, payload: payload))
        return id
    }

    private mutating func add<Settings>(
        _ provider: PushProvider, _ first: Settings, _ others: [String: Settings], _ payload: PayloadSettings,
        names: KeyPath<Settings, [String]>, _ service: (Settings) -> PushApp.Service?
    ) {
        func append(_ settings: Settings, _ name: String) -> PushApp.ID? {
            service(settings).map { self.append(provider, name, $0, payload) }
        }
        guard let fallback = append(first, provider.rawValue) else { return }
        fallbacks[provider] = fallback
        // With one app there is nothing to choose.
        guard !others.isEmpty else { return }
        var known: [ByteString: PushApp.ID] = [:]
        for name in first[keyPath: names] { known[ByteString(name)] = fallback }
        for (name, other) in others.sorted(by: { $0.key < $1.key }) {
            guard let id = append(other, "\(provider.rawValue)/\(name)") else { continue }
            for name in other[keyPath: names] { known[ByteString(name)] = id }
        }
        named[provider] = known
    }
}
