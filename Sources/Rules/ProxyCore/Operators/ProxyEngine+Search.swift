package import Addressing
package import PushDelivery
package import Registration
package import Timekeeping

/// Devices by what others know of them. There is no index by token, since nothing on the way of a call needs one.
extension ProxyEngine {
    /// A device as it is found by those who know its token alone.
    package struct FoundDevice: Hashable, Sendable {
        package let id: DeviceID
        package let token: PushToken
        /// When it last named this token.
        package let registeredAt: UnixTime
    }

    /// The app of the settings that a token's pushes go by.
    package func appName(of token: PushToken) -> String? {
        let apps = ledger.dispatcher.directory
        return apps.app(for: token).flatMap { apps[$0]?.name }
    }

    package func isKnown(_ device: DeviceID) -> Bool { registrar.bindings.flow(of: device) != nil }

    /// The token that a device has now; `nil` when it is gone.
    package func device(_ id: DeviceID, now: Moment) -> FoundDevice? {
        guard let target = registrar.bindings.forkTarget(id, now: now.instant), let token = target.pushToken else {
            return nil
        }
        return FoundDevice(id: id, token: token, registeredAt: target.registeredAt)
    }

    /// A step of the search for the devices that have certain tokens, so that calls go on meanwhile.
    ///
    /// - Parameters:
    ///   - providers: whose devices to look at.
    ///   - words: of each token a part that needs no escapes in a URI; any case.
    ///   - cursor: where this step begins.
    ///   - limit: how much to look at, see ``BindingTable/forEachDevice(of:with:from:limit:_:)``.
    /// - Returns: the devices that may be meant, and where the next step begins; `nil` when all was searched.
    package func devices(
        of providers: Set<PushProvider>, with words: [[UInt8]], from cursor: BindingCursor, limit: Int
    ) -> (found: [FoundDevice], next: BindingCursor?) {
        var cursor = cursor
        var found: [FoundDevice] = []
        let hasMore = registrar.bindings.forEachDevice(
            of: ProviderSet(providers), with: words, from: &cursor, limit: limit
        ) { device in
            found.append(FoundDevice(id: device.id, token: device.token, registeredAt: device.registeredAt))
        }
        return (found, hasMore ? cursor : nil)
    }
}
