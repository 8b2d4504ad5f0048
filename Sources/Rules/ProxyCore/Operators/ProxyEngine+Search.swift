package import Addressing
package import PushDelivery
package import Registration
package import Timekeeping

/// Look-ups of devices by their tokens. Tokens have no index, because no call needs one.
extension ProxyEngine {
    /// A device that was found by its token.
    package struct FoundDevice: Hashable, Sendable {
        package let id: DeviceID
        package let token: PushToken
        /// When the device last registered with this token.
        package let registeredAt: UnixTime
    }

    /// The name of the app in the settings that serves a token's pushes.
    package func appName(of token: PushToken) -> String? {
        let apps = ledger.dispatcher.directory
        return apps.app(for: token).flatMap { apps[$0]?.name }
    }

    package func isKnown(_ device: DeviceID) -> Bool { registrar.bindings.flow(of: device) != nil }

    /// The current token of a device. `nil` if the device is gone or has no token.
    package func device(_ id: DeviceID, now: Moment) -> FoundDevice? {
        guard let target = registrar.bindings.forkTarget(id, now: now.instant), let token = target.pushToken else {
            return nil
        }
        return FoundDevice(id: id, token: token, registeredAt: target.registeredAt)
    }

    /// One step of the search for devices with certain tokens. The search has steps so that calls are served in
    /// between.
    ///
    /// - Parameters:
    ///   - providers: the providers whose devices are searched.
    ///   - words: for each token, a part of the token that needs no escapes in a URI, in any case.
    ///   - cursor: where this step begins.
    ///   - limit: the work of this step, see ``BindingTable/forEachDevice(of:with:from:limit:_:)``.
    /// - Returns: the candidate devices, and where the next step begins; `nil` after the last step.
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
