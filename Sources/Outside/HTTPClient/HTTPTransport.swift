package import Reactor

/// Sends the requests of one group. One transport uses HTTP/2 by nghttp2, the other one HTTP/1.1 by libcurl.
///
/// A transport manages servers and connections. The session above the transports manages the callers, the time limits
/// and the number of requests.
package protocol HTTPTransport: AnyObject {
    init(on loop: EventLoop, limits: HTTPSession.Limits, names: HostNames) throws(HTTPClientError)

    /// Sends the request. The result is false if the next transport must send it. The outcome is reported by
    /// ``HTTPExchange/finish(_:)`` after this call has returned.
    func send(_ exchange: HTTPExchange) throws(HTTPClientError) -> Bool

    /// Cancels the request, because its response is not needed any more.
    func takeBack(_ exchange: HTTPExchange)

    /// The error for a request that has reached its deadline while it waited for a proxy; `nil` if it waited for the
    /// server.
    func delay(of exchange: HTTPExchange) -> HTTPClientError?

    /// Keeps a connection open, from now on, for requests like the given one.
    func keepWarm(_ request: HTTPClientRequest)

    /// Closes all connections and accepts no more requests.
    ///
    /// - Returns: the requests that were active.
    func close() -> [HTTPExchange]
}
