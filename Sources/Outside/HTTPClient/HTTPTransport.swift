package import Reactor

/// Carries the requests of one group. One transport uses HTTP/2 by nghttp2, another one uses HTTP/1.1 by libcurl.
///
/// A transport manages servers and connections. The layer above manages the callers, their time limits and their
/// number.
package protocol HTTPTransport: AnyObject {
    init(on loop: EventLoop, limits: HTTPSession.Limits, names: HostNames) throws(HTTPClientError)

    /// Accepts the request, or returns false to leave it to the next transport. The result is reported by
    /// ``HTTPExchange/finish(_:)`` after this call has returned.
    func send(_ exchange: HTTPExchange) throws(HTTPClientError) -> Bool

    /// Drops the request, because its answer is not needed any more.
    func takeBack(_ exchange: HTTPExchange)

    /// The failure of the request at its deadline, if it waits for a proxy and not for the server's answer.
    func delay(of exchange: HTTPExchange) -> HTTPClientError?

    /// From now on keeps a connection open for requests like this one.
    func keepWarm(_ request: HTTPClientRequest)

    /// Closes all connections and accepts no more requests.
    ///
    /// - Returns: the requests that were active.
    func close() -> [HTTPExchange]
}
