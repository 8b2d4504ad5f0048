/// Limits how much of a resource each caller can use, for one callee or for all (T32).
///
/// A part is reserved for trusted peers, so that untrusted callers cannot use up the resource. The resources are
/// pushes, held calls, waiting requests, missed calls, messages and records of a call's timeline.
package struct FairShare: Hashable, Sendable {
    /// The whole amount of the resource.
    package let whole: Int
    package let ofOne: Int
    /// The maximum amount of the resource for all untrusted callers together.
    package let ofUntrusted: Int

    /// Creates the limits of a resource.
    ///
    /// - Parameters:
    ///   - whole: the whole amount.
    ///   - ofOne: the maximum amount for one caller.
    ///   - ofUntrusted: the maximum amount for all untrusted callers together.
    package init(of whole: Int, ofOne: Int, ofUntrusted: Int) {
        self.whole = whole
        self.ofOne = min(max(ofOne, 1), whole)
        self.ofUntrusted = min(max(ofUntrusted, 1), whole)
    }

    /// The amounts of the resource that are currently in use.
    package struct Taken: Hashable, Sendable {
        package var all, untrusted, own: Int

        /// - Parameters:
        ///   - all: the amount in use by all callers.
        ///   - untrusted: the amount in use by all untrusted callers.
        ///   - own: the amount in use by the requesting caller.
        package init(all: Int, untrusted: Int, own: Int) {
            self.all = all
            self.untrusted = untrusted
            self.own = own
        }
    }

    /// The limit that a request would exceed.
    package enum Refusal: Hashable, Sendable {
        /// The caller already uses the maximum for one caller.
        case callerFull
        /// The free part of the resource is too small, or is reserved for trusted peers.
        case allFull
    }

    /// Decides whether a request for the resource is granted.
    ///
    /// - Parameters:
    ///   - amount: the requested amount.
    ///   - taken: the amounts in use.
    ///   - isTrusted: whether a trusted peer makes the request.
    /// - Returns: why the request is refused; `nil` if the request is granted.
    package func refusal(of amount: Int = 1, beside taken: Taken, isTrusted: Bool) -> Refusal? {
        if taken.own + amount > ofOne { return .callerFull }
        if taken.all + amount > whole || !isTrusted && taken.untrusted + amount > ofUntrusted { return .allFull }
        return nil
    }

    /// Selects the element to drop when too many elements are stored: the oldest element of the caller with the most
    /// elements. Among callers with equally many elements, the caller of the oldest element is selected.
    ///
    /// - Parameters:
    ///   - callers: the caller of each element, oldest element first.
    ///   - isTrusted: whether a caller is a trusted peer.
    ///   - mayGo: whether the element at the given index may be dropped.
    /// - Returns: the index of the element; `nil` if no element may be dropped.
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
