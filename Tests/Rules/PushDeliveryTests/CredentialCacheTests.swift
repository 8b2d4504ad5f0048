import PushDelivery
import Testing
import Timekeeping

private func at(_ seconds: Int) -> Instant { Instant(nanoseconds: 0) + .seconds(seconds) }

@Suite("Short-lived credentials")
struct CredentialCacheTests {
    private func google() -> CredentialCache { CredentialCache(renewedBeforeEnd: .seconds(300)) }

    @Test func `one credential is made for all waiting pushes`() {
        var cache = google()
        #expect(cache.wanted(now: at(0)) == .make)
        #expect(cache.wanted(now: at(0)) == .wait)
        cache.made("A", life: .seconds(3600), now: at(1))
        #expect(cache.wanted(now: at(2)) == .use("A"))
    }

    @Test func `it is renewed before its end while the old one is used`() {
        var cache = google()
        _ = cache.wanted(now: at(0))
        cache.made("A", life: .seconds(3600), now: at(0))
        #expect(cache.wanted(now: at(3299)) == .use("A"))
        #expect(cache.wanted(now: at(3300)) == .useAndMake("A"))
        #expect(cache.wanted(now: at(3301)) == .use("A"))
        cache.made("B", life: .seconds(3600), now: at(3302))
        #expect(cache.wanted(now: at(3302)) == .use("B"))
    }

    @Test func `it is not used after its end`() {
        var cache = google()
        _ = cache.wanted(now: at(0))
        cache.made("A", life: .seconds(3600), now: at(0))
        #expect(cache.wanted(now: at(3300)) == .useAndMake("A"))
        #expect(cache.wanted(now: at(3600)) == .wait)
        var other = google()
        _ = other.wanted(now: at(0))
        other.made("A", life: .seconds(3600), now: at(0))
        #expect(other.wanted(now: at(3600)) == .make)
    }

    @Test func `a short life is used for its half`() {
        var cache = google()
        _ = cache.wanted(now: at(0))
        cache.made("A", life: .seconds(100), now: at(0))
        #expect(cache.wanted(now: at(49)) == .use("A"))
        #expect(cache.wanted(now: at(50)) == .useAndMake("A"))
    }

    @Test func `after a failure there is a pause`() {
        var cache = google()
        _ = cache.wanted(now: at(0))
        cache.failed(.credentialsRefused("x"), pause: .seconds(60), now: at(1))
        #expect(cache.wanted(now: at(60)) == .giveUp(.credentialsRefused("x")))
        #expect(cache.wanted(now: at(61)) == .make)
    }

    @Test func `a failed renewal leaves the old one in use`() {
        var cache = google()
        _ = cache.wanted(now: at(0))
        cache.made("A", life: .seconds(3600), now: at(0))
        _ = cache.wanted(now: at(3300))
        cache.failed(.retry(after: nil), pause: .seconds(60), now: at(3301))
        #expect(cache.wanted(now: at(3302)) == .use("A"))
        #expect(cache.wanted(now: at(3361)) == .useAndMake("A"))
        cache.failed(.retry(after: nil), pause: .seconds(60), now: at(3600))
        #expect(cache.wanted(now: at(3601)) == .giveUp(.retry(after: nil)))
    }

    @Test func `a credential that the provider refuses is renewed once for all pushes that carried it`() {
        var cache = google()
        _ = cache.wanted(now: at(0))
        cache.made("A", life: .seconds(3600), now: at(0))
        cache.refused("A", now: at(60))
        #expect(cache.wanted(now: at(60)) == .make)
        cache.refused("A", now: at(60))
        #expect(cache.wanted(now: at(60)) == .wait)
        cache.made("B", life: .seconds(3600), now: at(61))
        cache.refused("A", now: at(1000))
        #expect(cache.wanted(now: at(1000)) == .use("B"))
    }

    @Test func `a fresh credential is kept after a refusal`() {
        var cache = google()
        _ = cache.wanted(now: at(0))
        cache.made("A", life: .seconds(3600), now: at(0))
        cache.refused("A", now: at(59))
        #expect(cache.wanted(now: at(59)) == .use("A"))
    }
}
