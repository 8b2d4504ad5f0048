package import PushDelivery
package import Timekeeping

extension LimitSettings {
    /// The maximum number of waiting calls of one user, as caller or as callee.
    package var accountCalls: Int {
        callsPerAccount > 0 ? min(callsPerAccount, calls) : min(calls, max(32, calls / 16))
    }

    /// The maximum number of bytes of one user's waiting requests.
    package var accountBytes: Int { min(heldBytes, max(1 << 20, heldBytes / 16)) }
}

extension ProxySettings {
    /// A limit of one callee, with the parts for one caller and for trusted peers (T32).
    package func share(of whole: Int, ofOne: Int? = nil) -> FairShare {
        FairShare(
            of: whole, ofOne: ofOne ?? (whole * limits.callerShare + 99) / 100,
            ofUntrusted: trusted.isEmpty ? whole : whole - whole * limits.trustedShare / 100)
    }

    /// The settings for lists of missed calls, with the part of a list that untrusted callers can use.
    package var sharedBucket: BucketSettings {
        var settings = bucket
        settings.untrustedShare = trusted.isEmpty ? 100 : 100 - limits.trustedShare
        return settings
    }
}
