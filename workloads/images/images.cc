// SPDX-License-Identifier: Apache-2.0
// An image service: HTTP in front of OpenCV.
//
//   images serve PORT        POST /transform?width=N&blur=N with a picture: a smaller JPEG
//   images make FOLDER SEED  synthetic inputs: small_0.jpg .. large_3.png
//
// What it does to memory: pixels (hundreds of KB to tens of MB) that die with the request, request
// and header strings, a cache of thumbnails that stay for the next thousand requests, and counts by
// client that stay for good.
#include <httplib.h>
#include <sys/socket.h>

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <random>
#include <string>
#include <vector>

namespace {

// The last thumbnails, by content.
class ThumbnailCache {
 public:
  void insert(size_t key, const cv::Mat& picture) {
    cv::Mat thumbnail;
    cv::resize(picture, thumbnail, cv::Size(48, 48), 0, 0, cv::INTER_AREA);
    std::vector<uchar> packed;
    cv::imencode(".png", thumbnail, packed);
    const std::lock_guard lock(mutex_);
    order_.push_back(key);
    thumbnails_[key] = std::move(packed);
    if (order_.size() > kKept) {
      thumbnails_.erase(order_.front());
      order_.pop_front();
    }
  }

 private:
  static constexpr size_t kKept = 1000;
  std::mutex mutex_;
  std::list<size_t> order_;
  std::map<size_t, std::vector<uchar>> thumbnails_;
};

class ClientCounts {
 public:
  void count(const std::string& client, const std::string& what) {
    const std::lock_guard lock(mutex_);
    ++counts_[client + " " + what];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, size_t> counts_;
};

int parameter(const httplib::Request& request, const char* name, int otherwise) {
  return request.has_param(name) ? std::atoi(request.get_param_value(name).c_str()) : otherwise;
}

cv::Mat filtered(const cv::Mat& picture, int width, int blur) {
  cv::Mat soft, small, sharp;
  cv::GaussianBlur(picture, soft, cv::Size(0, 0), std::max(1, blur));
  cv::addWeighted(picture, 1.5, soft, -0.5, 0, sharp);
  const double factor = static_cast<double>(std::max(16, width)) / picture.cols;
  cv::resize(sharp, small, cv::Size(), factor, factor, cv::INTER_AREA);
  cv::Mat grey, edges;
  cv::cvtColor(small, grey, cv::COLOR_BGR2GRAY);
  cv::Canny(grey, edges, 50, 150);
  small.setTo(cv::Scalar(0, 0, 0), edges);
  return small;
}

class Service {
 public:
  void transform(const httplib::Request& request, httplib::Response& response) {
    const std::vector<uchar> body(request.body.begin(), request.body.end());
    const cv::Mat picture = cv::imdecode(body, cv::IMREAD_COLOR);
    if (picture.empty()) {
      response.status = 400;
      response.set_content("not a picture\n", "text/plain");
      return;
    }
    const cv::Mat result =
        filtered(picture, parameter(request, "width", 128), parameter(request, "blur", 3));
    std::vector<uchar> packed;
    cv::imencode(".jpg", result, packed);
    thumbnails_.insert(++served_, result);
    counts_.count(request.get_header_value("X-Client"), std::to_string(picture.cols));
    response.set_content(std::string(packed.begin(), packed.end()), "image/jpeg");
  }

 private:
  std::atomic<size_t> served_ = 0;
  ThumbnailCache thumbnails_;
  ClientCounts counts_;
};

constexpr int kBacklog = 256;      // connections; the library's 5 resets clients of a busy machine
constexpr time_t kPatience = 120;  // seconds, as the clients have

// On a machine that is busy with something else, neither side may get a processor for seconds.
bool listen_patiently(httplib::Server& server, int port) {
  socket_t listener = -1;
  server.set_keep_alive_timeout(kPatience);
  server.set_read_timeout(kPatience);
  server.set_write_timeout(kPatience);
  server.set_socket_options([&](socket_t made) {
    const int yes = 1;
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    listener = made;
  });
  return server.bind_to_port("127.0.0.1", port) && listen(listener, kBacklog) == 0 &&
         server.listen_after_bind();
}

int serve(int port) {
  cv::setNumThreads(1);
  Service service;
  httplib::Server server;
  server.new_task_queue = [] { return new httplib::ThreadPool(24); };
  server.set_keep_alive_max_count(1'000'000);
  server.Post("/transform", [&](const httplib::Request& request, httplib::Response& response) {
    service.transform(request, response);
  });
  server.Post("/stop", [&](const httplib::Request&, httplib::Response&) { server.stop(); });
  if (listen_patiently(server, port)) return 0;
  std::fprintf(stderr, "images: cannot listen on port %d\n", port);
  return 1;
}

// Smooth gradients with shapes: pictures that compress like photographs.
cv::Mat synthetic(int width, int height, std::mt19937& random) {
  cv::Mat tiny(8, 8, CV_8UC3), picture;
  for (auto at = tiny.begin<cv::Vec3b>(); at != tiny.end<cv::Vec3b>(); ++at) {
    *at = cv::Vec3b(random() & 255, random() & 255, random() & 255);
  }
  cv::resize(tiny, picture, cv::Size(width, height), 0, 0, cv::INTER_CUBIC);
  for (int n = 0; n < 30; ++n) {
    const cv::Point middle(random() % width, random() % height);
    cv::circle(picture, middle, static_cast<int>(random() % (width / 8 + 1)),
               cv::Scalar(random() & 255, random() & 255, random() & 255), 2, cv::LINE_AA);
  }
  return picture;
}

int make(const std::string& folder, unsigned seed) {
  std::mt19937 random(seed);
  for (int n = 0; n < 16; ++n) {
    const bool large = n % 4 == 3;
    const int width = static_cast<int>(large ? 1800 + random() % 1800 : 120 + random() % 500);
    const cv::Mat picture = synthetic(width, width * 3 / 4, random);
    const char* end = n % 8 == 7 ? ".png" : ".jpg";
    const std::string kind = large ? "/large_" : "/small_";
    if (!cv::imwrite(folder + kind + std::to_string(n) + end, picture)) return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "serve" && argc == 3) return serve(std::atoi(argv[2]));
  if (verb == "make" && argc == 4) return make(argv[2], std::atoi(argv[3]));
  std::fputs("usage: images serve PORT | images make FOLDER SEED\n", stderr);
  return 2;
}
