package import Addressing
package import PushDelivery
package import Timekeeping

/// How far a walk through all bindings has come. Bindings may come and go between its steps.
package struct BindingCursor: Hashable, Sendable {
    fileprivate var slot: UInt32 = 0

    package init() {}
}

extension BindingTable {
    /// One device that is woken by pushes.
    package struct PushDevice: Sendable {
        package let id: DeviceID
        package let token: PushToken
        /// When the device last named this token.
        package let registeredAt: UnixTime
    }

    /// Visits the devices woken through Apple, a number of bindings at a time, as
    /// ``forEachDevice(of:with:from:limit:_:)``.
    ///
    /// A device that is just registering is passed over, because what is about to be stored is newer than what the
    /// caller knows of it.
    package func forEachAppleDevice(
        from cursor: inout BindingCursor, limit: Int, _ body: (PushDevice) -> Void
    ) -> Bool {
        let providers = ProviderSet([.apns, .apnsDevelopment])
        return forEachDevice(of: providers, with: [], from: &cursor, limit: limit) { device in
            if let slot = slot(of: device.id), !self[slot].marks.contains(.isBusy) { body(device) }
        }
    }

    /// Visits the devices woken through certain providers, a number of bindings at a time; the others are passed over
    /// unread.
    ///
    /// - Parameters:
    ///   - providers: whose devices to visit. Those that are switched off do not count.
    ///   - words: if there are any, only devices are visited whose contacts hold one of them, in any case. Give a part of
    ///     each wanted token that needs no escapes in a URI.
    ///   - cursor: moved behind what was visited.
    ///   - limit: how many tokens to read at most. Passing over a hundred bindings counts as one, and so does looking for
    ///     ten words.
    ///   - body: gets each device. Some may have another token than one of those wanted.
    /// - Returns: whether there is more.
    package func forEachDevice(
        of providers: ProviderSet, with words: [[UInt8]], from cursor: inout BindingCursor, limit: Int,
        _ body: (PushDevice) -> Void
    ) -> Bool {
        var cost = 0
        while cursor.slot < slots.upperBound, cost < limit * 100 {
            let slot = cursor.slot
            cursor.slot += 1
            cost += 1
            let provider = self[slot].provider
            // Vacant slots have no provider.
            guard providers.contains(number: provider), enabled.contains(number: provider) else { continue }
            if !words.isEmpty {
                cost += 10 * words.count
                guard mayHold(words, at: slot) else { continue }
            }
            cost += 99
            let (id, date) = (self[slot].id, self[slot].registeredAt)
            guard let token = pushToken(of: id) else { continue }
            body(PushDevice(id: id, token: token, registeredAt: date))
        }
        return cursor.slot < slots.upperBound
    }
}

extension BindingTable {
    /// Whether the contact holds one of the words. No token is cut in parts.
    private func mayHold(_ words: [[UInt8]], at slot: UInt32) -> Bool {
        !allContactParts(at: slot) { part in !part.mayHold(words) }
    }
}

extension Span<UInt8> {
    fileprivate func mayHold(_ words: [[UInt8]]) -> Bool {
        for word in words where word.count <= count && !word.isEmpty {
            let first = word[0] | 0x20
            for start in 0...count - word.count where self[start] | 0x20 == first {
                if word.indices.allSatisfy({ self[start + $0] | 0x20 == word[$0] | 0x20 }) { return true }
            }
        }
        return false
    }
}
