/// How much one caller may have of what belongs to one who is called, or to all (T32).
///
/// One caller has a share. Trusted peers have a part that all others together cannot take. The same rule holds for pushes, held
/// calls, waiting requests, missed calls, messages and records.
package struct FairShare: Hashable, Sendable {
    /// How much there is.
    package let whole: Int
    package let ofOne: Int
    /// What all who are not trusted may have together.
    package let ofUntrusted: Int

    /// - Parameters:
    ///   - whole: how much there is.
    ///   - ofOne: how much one caller may have.
    ///   - ofUntrusted: how much all who are not trusted may have together.
    package init(of whole: Int, ofOne: Int, ofUntrusted: Int) {
        self.whole = whole
        self.ofOne = min(max(ofOne, 1), whole)
        self.ofUntrusted = min(max(ofUntrusted, 1), whole)
    }

    /// How much is taken.
    package struct Taken: Hashable, Sendable {
        package var all, untrusted, own: Int

        /// - Parameters:
        ///   - all: by everybody.
        ///   - untrusted: by all who are not trusted.
        ///   - own: by the caller who asks.
        package init(all: Int, untrusted: Int, own: Int) {
            self.all = all
            self.untrusted = untrusted
            self.own = own
        }
    }

    /// Why there is no room.
    package enum Refusal: Hashable, Sendable {
        /// The caller has its share.
        case callerFull
        /// What is left is for trusted peers, or nothing is left.
        case allFull
    }

    /// - Parameters:
    ///   - amount: what is asked for.
    ///   - taken: what is taken.
    ///   - isTrusted: whether a trusted peer asks.
    /// - Returns: `nil` where there is room.
    package func refusal(of amount: Int = 1, beside taken: Taken, isTrusted: Bool) -> Refusal? {
        if taken.own + amount > ofOne { return .callerFull }
        if taken.all + amount > whole || !isTrusted && taken.untrusted + amount > ofUntrusted { return .allFull }
        return nil
    }

    /// Whose oldest goes when there is more than the whole: that of the caller who has most, and of those the oldest.
    ///
    /// - Parameters:
    ///   - callers: to whom it belongs, oldest first.
    ///   - isTrusted: whether trusted peers have brought it.
    ///   - mayGo: whether what stands at a place may go.
    /// - Returns: the place of what goes; `nil` when there is nothing.
    package func givesWay<Caller: Hashable>(
        among callers: some Collection<Caller>, isTrusted: (Caller) -> Bool, mayGo: (Int) -> Bool = { _ in true }
    ) -> Int? {
        var counts: [Caller: Int] = [:]
        var untrusted = 0
        for caller in callers {
            counts[caller, default: 0] += 1
            if !isTrusted(caller) { untrusted += 1 }
        }
        let sparesTrusted = untrusted > ofUntrusted
        var found: (place: Int, count: Int)?
        for (place, caller) in callers.enumerated() where mayGo(place) && !(sparesTrusted && isTrusted(caller)) {
            let count = counts[caller, default: 0]
            if count > found?.count ?? 0 { found = (place, count) }
        }
        return found?.place
    }
}
