package import Timekeeping

/// A push as its provider wants it, or why there cannot be one.
package enum PushRendering: Hashable, Sendable {
    case request(ProviderRequest)
    case impossible(PushOutcome)
}

extension PushSettings {
    /// Writes the request of one try.
    ///
    /// - Parameters:
    ///   - push: what to say to whom.
    ///   - id: the same in all tries of a push, so that APNs does not show it twice.
    ///   - now: the time of the try; lives are counted from it.
    /// - Returns: the request, or the end of the push.
    package func render(_ push: PushRequest, id: APNsID, now: UnixTime) -> PushRendering {
        switch push.token.provider {
        case .apns, .apnsDevelopment: APNsRequest.make(push, self, id: id, now: now)
        case .fcm:
            switch fcm.bodyFormat {
            case .v1: FCMRequest.make(push, self, now: now)
            case .legacy: FCMLegacyRequest.make(push, self, now: now)
            }
        }
    }

    /// Where the requests go; the path follows.
    package func url(of provider: PushProvider) -> String {
        switch provider {
        case .apns, .apnsDevelopment: apns.url(of: provider)
        case .fcm: fcm.baseURL
        }
    }

    package func authorityFile(of provider: PushProvider) -> String? {
        switch provider {
        case .apns, .apnsDevelopment: apns.caFile
        case .fcm: fcm.caFile
        }
    }

    package func lane(of provider: PushProvider) -> LaneSettings {
        switch provider {
        case .apns, .apnsDevelopment: apns.lane
        case .fcm: fcm.lane
        }
    }

    /// `time_to_live` of an incoming-call push (A12): what is left of the ring timeout in whole seconds, less the margin.
    func inviteTTL(_ push: PushRequest, now: UnixTime) -> Int64 {
        let left = (push.deadline - now).components
        let seconds = left.seconds + (left.attoseconds > 0 ? 1 : 0)
        return max(0, seconds - inviteMargin.components.seconds)
    }
}
