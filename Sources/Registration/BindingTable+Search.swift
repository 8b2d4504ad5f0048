package import PushDelivery
package import Timekeeping

/// Where a walk through all bindings stands. Bindings may come and go between its steps.
package struct BindingCursor: Hashable, Sendable {
    fileprivate var slot: UInt32 = 0

    package init() {}
}

extension BindingTable {
    /// One device that is woken by pushes.
    package struct PushDevice: Sendable {
        package let id: BindingID
        package let token: PushToken
        /// When it last named this token.
        package let registeredAt: UnixTime
    }

    /// Visits the devices woken through Apple, a number of bindings at a time; the others are passed over unread.
    ///
    /// A device that is just registering is passed over too: what is about to be stored is newer than anything that is
    /// known of it.
    ///
    /// - Parameters:
    ///   - cursor: moved behind what was visited.
    ///   - limit: bindings to look at, at most; of other providers' a hundred count as one.
    ///   - body: gets each device.
    /// - Returns: whether there is more.
    package func forEachAppleDevice(
        from cursor: inout BindingCursor, limit: Int, _ body: (PushDevice) -> Void
    ) -> Bool {
        forEachDevice(of: ProviderSet([.apns, .apnsDevelopment]), from: &cursor, limit: limit, body)
    }

    /// The same for the devices of any providers.
    package func forEachDevice(
        of providers: ProviderSet, from cursor: inout BindingCursor, limit: Int, _ body: (PushDevice) -> Void
    ) -> Bool {
        var cost = 0
        while cursor.slot < slots.upperBound, cost < limit * 100 {
            let slot = cursor.slot
            cursor.slot += 1
            cost += 1
            guard isDevice(slot, of: providers) else { continue }
            cost += 99
            let binding = self[slot]
            guard let token = pushToken(of: binding.id) else { continue }
            body(PushDevice(id: binding.id, token: token, registeredAt: binding.registeredAt))
        }
        return cursor.slot < slots.upperBound
    }

    /// Visits the devices that are woken through somebody and whose contacts may hold a token, a number of bindings at a
    /// time.
    ///
    /// - Parameters:
    ///   - words: of each wanted token a part that needs no escapes in a URI; any case.
    ///   - cursor: moved behind what was visited.
    ///   - limit: bindings to look at.
    ///   - body: gets each device, some of which have another token.
    /// - Returns: whether there is more.
    package func forEachDevice(
        with words: [[UInt8]], from cursor: inout BindingCursor, limit: Int,
        _ body: (BindingID, PushToken, UnixTime) -> Void
    ) -> Bool {
        let end = min(slots.upperBound, cursor.slot.addingReportingOverflow(UInt32(clamping: limit)).partialValue)
        while cursor.slot < end {
            let slot = cursor.slot
            cursor.slot += 1
            guard enabled.contains(number: self[slot].provider), self[slot].mayHold(words) else { continue }
            let binding = self[slot]
            if let token = pushToken(of: binding.id) { body(binding.id, token, binding.registeredAt) }
        }
        return cursor.slot < slots.upperBound
    }

    /// Vacant slots have no provider.
    private func isDevice(_ slot: UInt32, of providers: ProviderSet) -> Bool {
        let number = self[slot].provider
        return providers.contains(number: number)
            && enabled.contains(number: number) && !self[slot].marks.contains(.isBusy)
    }
}

extension Binding {
    /// Whether its contact holds one of the words.
    fileprivate func mayHold(_ words: [[UInt8]]) -> Bool {
        let contact = block.span.extracting(contactRange)
        for word in words where word.count <= contact.count && !word.isEmpty {
            let first = word[0] | 0x20
            for start in 0...contact.count - word.count where contact[start] | 0x20 == first {
                if word.indices.allSatisfy({ contact[start + $0] | 0x20 == word[$0] | 0x20 }) { return true }
            }
        }
        return false
    }
}
